"""What is valid in a config, but rarely meant: keys in the file, prices in another unit, proxies that are not used."""

import os
from collections.abc import Iterable
from urllib.parse import urlsplit

from router.config.targets import TargetBlock
from router.contract.secret import Secret, looks_like_key

_HTTP = ("", "http", "https")
_LEAST_PRICE = 0.001


def block_warnings(blocks: Iterable[TargetBlock]) -> list[str]:
    """What to say of the targets' blocks."""
    found = []
    for block in blocks:
        settings, path = block.settings, block.path
        key = Secret(settings.api_key) if settings.api_key else None
        if key is not None and not key.is_reference and not key.is_callers:
            found.append(f"{path}.api_key: the key is written in the config file; use env:NAME to keep it out")
        if key is not None and key.is_padded:
            found.append(f"{path}.api_key: {key} has spaces or a line break around it, which are ignored")
        for name, value in {**settings.headers, **settings.query}.items():
            if looks_like_key(value) and "env:" not in value:
                found.append(f"{path}: the value of {name} looks like a key; use env:NAME to keep it out of the config file")
        if settings.price is not None and 0 < settings.price.output < _LEAST_PRICE:
            price = f"{settings.price.output:g} looks like a price per token"
            found.append(f"{path}.price: is in USD per million tokens; {price}")
    return found


def proxy_warnings(addresses: Iterable[str]) -> list[str]:
    """What to say of the proxies in the environment, for targets at these addresses that Tandem dials itself.

    Without it, the first request would fail, or go around the proxy.
    """
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
