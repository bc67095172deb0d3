"""Wrong keys, counted by the address that they come from. Nothing here reads a clock: times are given, in seconds."""

import ipaddress
from collections import deque

from router.contract.errors import RateLimited, TandemError, Unauthorized

MAX_WRONG = 20
"""How many wrong keys an address may send within a minute. The next ones are told to wait."""
WINDOW_SECONDS = 60.0
MAX_ADDRESSES = 1_024
"""More are not remembered: the address whose last wrong key is the oldest is forgotten."""
_SITE_BITS = 64


class WrongKeys:
    """When wrong keys came from each address. Requests with a valid key are never looked up here."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: dict[str, deque[float]] = {}

    def __len__(self) -> int:
        return len(self._times)

    def refuse(self, address: str, now: float, *, has_key: bool) -> TandemError:
        """How to refuse a request whose key is missing or wrong: with 401, or with 429 if its address has sent too many.

        A request without any key is not counted, since clients and monitors probe without one.
        """
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
        self._times[site] = times  # the last one in the table, and the last to be forgotten
        if len(self._times) > MAX_ADDRESSES:
            del self._times[next(iter(self._times))]


def site_of(address: str) -> str:
    """What counts as one address: an IPv4 address, or the 64 bits of an IPv6 address that name a site.

    One machine has all the addresses of its site to choose from.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""  # a socket of the file system, which has no address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _SITE_BITS), strict=False).network_address)
