"""Wrong keys, counted per address. Times are arguments, in seconds."""

import ipaddress
from collections import deque

from router.contract.errors import RateLimited, TandemError, Unauthorized

MAX_WRONG = 20
"""Wrong keys that an address may send in a minute before it must wait."""
WINDOW_SECONDS = 60.0
MAX_ADDRESSES = 1_024
"""Beyond this, the address with the oldest wrong key is forgotten."""
_SITE_BITS = 64


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
