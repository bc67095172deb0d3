"""A URL's host and port, and the proxy that the environment names for it."""

import os
from base64 import b64encode
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import unquote_to_bytes, urlsplit

from router.contract.relay import Tls


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy from an environment variable, which prints without its password. An invalid value has no host."""

    host: str
    port: int
    variable: str
    scheme: str = "http"
    credentials: str = field(default="", repr=False)
    """The value of `proxy-authorization`, if any."""

    @property
    def is_supported(self) -> bool:
        """Whether it opens tunnels by CONNECT. SOCKS proxies do not."""
        return self.scheme in ("http", "https")


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    is_tls: bool
    authority: str
    path: str
    proxy: Proxy | None


@lru_cache(maxsize=256)
def read_address(url: str) -> Address:
    parts = urlsplit(url)
    host, is_tls = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    return Address(host, port, is_tls, parts.netloc, path, _find_proxy(parts.scheme, host, parts.netloc))


@lru_cache(maxsize=256)
def pool_key(address: Address, tls: Tls | None) -> str:
    """Connections with equal keys are interchangeable."""
    return f"{'https' if address.is_tls else 'http'}://{address.host}:{address.port} {tls or ''}"


def _find_proxy(scheme: str, host: str, authority: str) -> Proxy | None:
    if scheme != "https" or host in ("localhost", "::1") or host.startswith("127."):
        return None
    variable = next((name for name in ("HTTPS_PROXY", "https_proxy") if os.environ.get(name)), "")
    exceptions = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    if not variable or bypasses_proxy(authority, exceptions):
        return None
    return read_proxy(os.environ[variable], variable)


def read_proxy(url: str, variable: str) -> Proxy:
    """User and password may be percent-encoded."""
    try:
        parts = urlsplit(url.strip() if "//" in url else f"//{url.strip()}")
        host, port = parts.hostname or "", parts.port or 8080
    except ValueError:  # an invalid port, or an unencoded character in the password
        return Proxy("", 0, variable)
    credentials = ""
    if parts.username or parts.password:
        known = unquote_to_bytes(parts.username or "") + b":" + unquote_to_bytes(parts.password or "")
        credentials = f"Basic {b64encode(known).decode()}"
    return Proxy(host, port, variable, parts.scheme.lower() or "http", credentials)


def bypasses_proxy(authority: str, exceptions: str) -> bool:
    """Whether `NO_PROXY` names this host, a domain above it, or everything."""
    host = authority.rsplit("@")[-1].rsplit(":", 1)[0].lower()
    names = [name.strip().lower().lstrip(".") for name in exceptions.split(",") if name.strip()]
    return any(name == "*" or host == name.rsplit(":", 1)[0] or host.endswith(f".{name}") for name in names)
