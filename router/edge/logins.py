"""Logins of the page: a browser that has shown a key once is known by a cookie from then on. Nothing here reads a clock.

Logins are kept in memory alone, under a digest of their cookie: the table is of no use to somebody who reads it, and a restart
ends them all. Create calls never look here (`Admission.recognise` is asked for pages only): no other site can spend money with
a cookie.
"""

import secrets
from hashlib import sha256

from msgspec import Struct

from router.contract.keys import Key, KeyRing

COOKIE = "tandem_login"
PAGE_HEADER = "x-tandem-page"
"""`1` in every write of the page. A form cannot send a header, and another origin's script may not without our consent."""
LOGIN_SECONDS = 12 * 3600
MAX_LOGINS = 1_024
"""More are not remembered: the oldest ends."""
MAX_LOGINS_OF_A_KEY = 16
"""So that one caller who logs in again and again ends its own logins and nobody else's."""
_ID_BYTES = 32


class _Login(Struct, frozen=True):
    key: Key
    ends_at: float


class Logins:
    """The logins of browsers. Times are given in seconds since 1970."""

    __slots__ = ("_logins",)

    def __init__(self) -> None:
        self._logins: dict[bytes, _Login] = {}
        """The oldest first."""

    def __len__(self) -> int:
        return len(self._logins)

    def begin(self, key: Key, now: float) -> str:
        """Log the owner of a key in. The cookie's value is new and random: one that the browser brought is never taken over."""
        self._forget_ended(now)
        of_key = [name for name, login in self._logins.items() if login.key.id == key.id]
        for name in of_key[: max(0, len(of_key) - MAX_LOGINS_OF_A_KEY + 1)]:
            del self._logins[name]
        if len(self._logins) >= MAX_LOGINS:
            del self._logins[next(iter(self._logins))]
        value = secrets.token_urlsafe(_ID_BYTES)
        self._logins[_digest(value)] = _Login(key, now + LOGIN_SECONDS)
        return value

    def find(self, cookies: str, keys: KeyRing, now: float) -> Key | None:
        """The key by which the sender of a `Cookie` header logged in; None if it did not, or its login or its key has ended."""
        login = self._logins.get(_digest(read_login(cookies)))
        return keys.renew(login.key, now) if login is not None and now < login.ends_at else None

    def end(self, cookies: str) -> None:
        """Log the sender of a `Cookie` header out."""
        self._logins.pop(_digest(read_login(cookies)), None)

    def _forget_ended(self, now: float) -> None:
        for name in [name for name, login in self._logins.items() if now >= login.ends_at]:
            del self._logins[name]


def read_login(cookies: str) -> str:
    """Our own cookie of a `Cookie` header. Empty if it is missing or comes twice: a neighbouring site can add one."""
    pairs = (pair.strip().partition("=") for pair in cookies.split(";"))
    found = [value for name, _, value in pairs if name == COOKIE]
    return found[0] if len(found) == 1 else ""


def write_cookie(value: str, *, is_secure: bool) -> str:
    """The `Set-Cookie` header that begins a login; with an empty value, the one that ends it."""
    age = LOGIN_SECONDS if value else 0
    return f"{COOKIE}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age}{'; Secure' if is_secure else ''}"


def _digest(value: str) -> bytes:
    return sha256(value.encode("utf-8", "replace")).digest()
