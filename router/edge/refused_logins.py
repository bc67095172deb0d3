"""Logins that a plan refused on a socket.

Codex refreshes its login when a handshake is refused, not for an error on an open socket. So a socket is closed if a plan
refuses its login, and for a while handshakes with that login get the plan's own refusal.
"""

import time
from collections.abc import Callable, Mapping

from router.contract.credential import read_credentials
from router.contract.errors import TandemError, UpstreamRefused
from router.contract.words import Dialect

_SECONDS = 30.0
"""More than one handshake: after the first refusal Codex reads its login again, and after the second it refreshes."""
_MAX_LOGINS = 256


class RefusedLogins:
    """By their digests, the oldest first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refused: dict[str, tuple[float, UpstreamRefused]] = {}

    def note(self, headers: Mapping[str, str], error: TandemError | None) -> bool:
        """Remember a refused login. Returns whether the error is such a refusal."""
        if not isinstance(error, UpstreamRefused) or error.status != 401:
            return False
        login = _login_in(headers)
        self._refused.pop(login, None)
        self._refused[login] = self._clock() + _SECONDS, error
        while len(self._refused) > _MAX_LOGINS:
            del self._refused[next(iter(self._refused))]
        return True

    def check(self, headers: Mapping[str, str]) -> None:
        """Raises the plan's refusal for a login that it refused just now."""
        if not self._refused:
            return
        now = self._clock()
        self._refused = {login: kept for login, kept in self._refused.items() if kept[0] > now}
        if (found := self._refused.get(_login_in(headers))) is not None:
            raise found[1]


def _login_in(headers: Mapping[str, str]) -> str:
    """The digest of a request's login; empty for none."""
    return next((known.digest for known in read_credentials(headers, Dialect.RESPONSES) if known.is_login), "")
