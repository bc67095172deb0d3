"""Browser logins: a key given once is replaced by a cookie. Times are arguments.

Logins are kept in memory under a digest of their cookie, so a leaked table is useless and a restart ends them. Create calls
never accept a cookie (`Admission.recognise` handles pages only), so that another site cannot spend money.
"""

import secrets
from hashlib import sha256

from msgspec import Struct

from router.contract.keys import Key, KeyRing

COOKIE = "tandem_login"
PAGE_HEADER = "x-tandem-page"
"""Set to `1` in every write of the page. A form cannot send headers, and another origin's script needs our consent."""
LOGIN_SECONDS = 12 * 3600
MAX_LOGINS = 1_024
"""Beyond this, the oldest login ends."""
MAX_LOGINS_OF_A_KEY = 16
"""So that repeated logins of one caller end only its own."""
_ID_BYTES = 32


class _Login(Struct, frozen=True):
    key: Key
    ends_at: float


class Logins:
    """Times are in seconds since 1970."""

    __slots__ = ("_logins",)

    def __init__(self) -> None:
        self._logins: dict[bytes, _Login] = {}
        """Oldest first."""

    def __len__(self) -> int:
        return len(self._logins)

    def begin(self, key: Key, now: float) -> str:
        """Start a login. The cookie's value is always new, never one that the browser sent."""
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
        """The key of the login in a `Cookie` header; None if there is none or it has expired."""
        login = self._logins.get(_digest(read_login(cookies)))
        return keys.renew(login.key, now) if login is not None and now < login.ends_at else None

    def end(self, cookies: str) -> None:
        self._logins.pop(_digest(read_login(cookies)), None)

    def _forget_ended(self, now: float) -> None:
        for name in [name for name, login in self._logins.items() if now >= login.ends_at]:
            del self._logins[name]


def read_login(cookies: str) -> str:
    """Our cookie in a `Cookie` header; empty if missing or repeated, since a neighbouring site can add one."""
    pairs = (pair.strip().partition("=") for pair in cookies.split(";"))
    found = [value for name, _, value in pairs if name == COOKIE]
    return found[0] if len(found) == 1 else ""


def write_cookie(value: str, *, is_secure: bool) -> str:
    """The `Set-Cookie` header that starts a login; an empty value ends it."""
    age = LOGIN_SECONDS if value else 0
    return f"{COOKIE}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age}{'; Secure' if is_secure else ''}"


def _digest(value: str) -> bytes:
    return sha256(value.encode("utf-8", "replace")).digest()
