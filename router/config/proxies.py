"""Variables that name a proxy which Tandem does not use: reported before the first request fails or goes around it."""

import os
from collections.abc import Iterable
from urllib.parse import urlsplit

_HTTP = ("", "http", "https")


def proxy_warnings(addresses: Iterable[str]) -> list[str]:
    """What to say of the proxies in the environment, for targets at these addresses that Tandem dials itself."""
    if not any(_may_need_a_proxy(address) for address in addresses):
        return []
    used = next((name for name in ("HTTPS_PROXY", "https_proxy") if os.environ.get(name)), "")
    if used:
        scheme = _scheme(os.environ[used])
        if scheme in _HTTP:
            return []
        return [f"{used} names a {scheme}:// proxy, which is not supported: use an http:// proxy, or list hosts in NO_PROXY"]
    unused = next((name for name in ("ALL_PROXY", "all_proxy") if os.environ.get(name)), "")
    if not unused or os.environ.get("NO_PROXY") == "*" or os.environ.get("no_proxy") == "*":
        return []
    if _scheme(os.environ[unused]) in _HTTP:
        return [f"{unused} is not read, so targets are reached without a proxy: set HTTPS_PROXY to the same value"]
    return [f"{unused} is not read, and SOCKS proxies are not supported, so targets are reached without a proxy"]


def _scheme(url: str) -> str:
    scheme, separator, _ = url.strip().partition("://")  # not taken apart: a password may make it no address
    return scheme.lower() if separator else ""


def _may_need_a_proxy(address: str) -> bool:
    parts = urlsplit(address)
    host = parts.hostname or ""
    return parts.scheme == "https" and host not in ("localhost", "::1") and not host.startswith("127.")
