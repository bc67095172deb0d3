"""Where a URL leads: host, port, and the proxy that the environment names for it."""

import os
from base64 import b64encode
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import unquote_to_bytes, urlsplit

from router.contract.relay import Tls


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that a variable of the environment names. Prints without its password. An empty host: it names none."""

    host: str
    port: int
    variable: str
    scheme: str = "http"
    credentials: str = field(default="", repr=False)
    """The value of `proxy-authorization`; empty where its address has no user."""

    @property
    def is_supported(self) -> bool:
        """Whether it is one that opens tunnels for CONNECT. A SOCKS proxy speaks a protocol of its own."""
        return self.scheme in ("http", "https")


@dataclass(frozen=True, slots=True)
class Address:
    """A URL, taken apart once."""

    host: str
    port: int
    is_tls: bool
    authority: str
    path: str
    proxy: Proxy | None


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


def _find_proxy(scheme: str, host: str, authority: str) -> Proxy | None:
    if scheme != "https" or host in ("localhost", "::1") or host.startswith("127."):
        return None
    variable = next((name for name in ("HTTPS_PROXY", "https_proxy") if os.environ.get(name)), "")
    exceptions = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    if not variable or bypasses_proxy(authority, exceptions):
        return None
    return read_proxy(os.environ[variable], variable)


def read_proxy(url: str, variable: str) -> Proxy:
    """Take the address of a proxy apart. User and password may be percent-encoded. Without a host where it is no address."""
    try:
        parts = urlsplit(url.strip() if "//" in url else f"//{url.strip()}")
        host, port = parts.hostname or "", parts.port or 8080
    except ValueError:  # the port is not a number, or the password has a character that must be encoded
        return Proxy("", 0, variable)
    credentials = ""
    if parts.username or parts.password:
        known = unquote_to_bytes(parts.username or "") + b":" + unquote_to_bytes(parts.password or "")
        credentials = f"Basic {b64encode(known).decode()}"
    return Proxy(host, port, variable, parts.scheme.lower() or "http", credentials)


def bypasses_proxy(authority: str, exceptions: str) -> bool:
    """Whether `NO_PROXY` names this host: itself, a domain above it, or everything."""
    host = authority.rsplit("@")[-1].rsplit(":", 1)[0].lower()
    names = [name.strip().lower().lstrip(".") for name in exceptions.split(",") if name.strip()]
    return any(name == "*" or host == name.rsplit(":", 1)[0] or host.endswith(f".{name}") for name in names)
