"""Wrong keys, counted per address, and logins that a plan refused. Times are arguments, in seconds."""

import ipaddress
from collections import deque
from collections.abc import Mapping

from router.contract.credential import read_credentials
from router.contract.errors import RateLimited, TandemError, Unauthorized, UpstreamRefused
from router.contract.words import Dialect

MAX_WRONG = 20
"""Wrong keys that an address may send in a minute before it must wait."""
WINDOW_SECONDS = 60.0
MAX_ADDRESSES = 1_024
"""Beyond this, the address with the oldest wrong key is forgotten."""
_SITE_BITS = 64
LOGIN_SECONDS = 30.0
"""More than one handshake: after the first refusal Codex reads its login again, and after the second it refreshes."""
MAX_LOGINS = 256
"""Beyond this, the login that was refused first is forgotten."""


class WrongKeys:
    """Times of wrong keys by address. Valid keys are never looked up here."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: dict[str, deque[float]] = {}

    def __len__(self) -> int:
        return len(self._times)

    def refuse(self, address: str, now: float, *, has_key: bool) -> TandemError:
        """401, or 429 after too many wrong keys. Missing ones do not count: clients and monitors probe without a key."""
        site = site_of(address)
        seconds = self._wait_of(site, now)
        if seconds > 0:
            problem = f"{MAX_WRONG} wrong keys came from this address within a minute"
            return RateLimited(f"{problem}. A valid key is still accepted", retry_after_seconds=seconds)
        if has_key:
            self._note(site, now)
        return Unauthorized()

    def _wait_of(self, site: str, now: float) -> float:
        times = self._times.get(site)
        return times[0] + WINDOW_SECONDS - now if times is not None and len(times) == MAX_WRONG else 0.0

    def _note(self, site: str, now: float) -> None:
        times = self._times.pop(site, None) or deque(maxlen=MAX_WRONG)
        times.append(now)
        self._times[site] = times  # reinserted last, so forgotten last
        if len(self._times) > MAX_ADDRESSES:
            del self._times[next(iter(self._times))]


def site_of(address: str) -> str:
    """What counts as one address: an IPv4 address, or an IPv6 /64, any of whose addresses one machine can use."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""  # a Unix socket
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _SITE_BITS), strict=False).network_address)


class RefusedLogins:
    """Logins that a plan refused on a socket, by their digests.

    Codex refreshes its login when a handshake is refused, not for an error on an open socket. So a socket is closed if a plan
    refuses its login, and for a while handshakes with that login get the plan's own refusal.
    """

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[str, tuple[float, UpstreamRefused]] = {}

    def note(self, headers: Mapping[str, str], dialect: Dialect, error: TandemError | None, now: float) -> bool:
        """Remember a refused login. Returns whether the error is such a refusal."""
        if not isinstance(error, UpstreamRefused) or error.as_sent is None or error.as_sent.status != 401:
            return False
        if login := _login_in(headers, dialect):
            self._refused.pop(login, None)
            self._refused[login] = now + LOGIN_SECONDS, error
        while len(self._refused) > MAX_LOGINS:
            del self._refused[next(iter(self._refused))]
        return True

    def check(self, headers: Mapping[str, str], dialect: Dialect, now: float) -> None:
        """Raises the plan's refusal for a login that it refused just now."""
        if not self._refused:
            return
        self._refused = {login: kept for login, kept in self._refused.items() if kept[0] > now}
        if (found := self._refused.get(_login_in(headers, dialect))) is not None:
            raise found[1]


def _login_in(headers: Mapping[str, str], dialect: Dialect) -> str:
    """The digest of a request's login; empty for none."""
    return next((known.digest for known in read_credentials(headers, dialect) if known.is_login), "")
