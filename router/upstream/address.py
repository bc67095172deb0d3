"""Where a URL leads: host, port, and the proxy that the environment names for it."""

import os
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from router.contract.relay import Tls


@dataclass(frozen=True, slots=True)
class Address:
    """A URL, taken apart once."""

    host: str
    port: int
    is_tls: bool
    authority: str
    path: str
    proxy: tuple[str, int] | None


@lru_cache(maxsize=256)
def read_address(url: str) -> Address:
    """Take a URL apart, and find the proxy that the environment names for it."""
    parts = urlsplit(url)
    host, is_tls = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    return Address(host, port, is_tls, parts.netloc, path, _find_proxy(parts.scheme, host, parts.netloc))


@lru_cache(maxsize=256)
def pool_key(address: Address, tls: Tls | None) -> str:
    """What two connections must share to be exchangeable."""
    return f"{'https' if address.is_tls else 'http'}://{address.host}:{address.port} {tls or ''}"


def _find_proxy(scheme: str, host: str, authority: str) -> tuple[str, int] | None:
    if scheme != "https" or host in ("localhost", "::1") or host.startswith("127."):
        return None
    url = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    exceptions = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    if not url or bypasses_proxy(authority, exceptions):
        return None
    parts = urlsplit(url if "//" in url else f"//{url}")
    return (parts.hostname or "", parts.port or 8080) if parts.hostname else None


def bypasses_proxy(authority: str, exceptions: str) -> bool:
    """Whether `NO_PROXY` names this host: itself, a domain above it, or everything."""
    host = authority.rsplit("@")[-1].rsplit(":", 1)[0].lower()
    names = [name.strip().lower().lstrip(".") for name in exceptions.split(",") if name.strip()]
    return any(name == "*" or host == name.rsplit(":", 1)[0] or host.endswith(f".{name}") for name in names)
