"""Who may take what is left of a quota: equal shares, first between callers, then between the sessions of each. Pure.

A share is what everybody gets who asks for as much; what some do not ask for is shared by the rest. What counts as asked for is
what was taken in the last minute and what was not to be had: a request that went elsewhere because of the quota, or that waits.
So nobody is held back, and nothing is kept for anybody, while all that is asked for fits into the minute.

Amounts are parts of a minute's quota: 1 is all of it.
"""

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from router.contract.caller import Caller, SessionKey

_NEARLY = 1e-9


class Asking(Protocol):
    """A request that asks for a part of a minute. Numbers go by arrival."""

    who: SessionKey
    amount: float
    number: int


_A = TypeVar("_A", bound=Asking)


class Miss:
    __slots__ = ("amount", "at", "is_owed", "who")

    def __init__(self, who: SessionKey, amount: float, at: float) -> None:
        self.who, self.amount, self.at, self.is_owed = who, amount, at, True


class _Taken:
    __slots__ = ("amount", "requests")

    def __init__(self) -> None:
        self.amount, self.requests = 0.0, 0

    def add(self, amount: float, requests: int) -> None:
        self.requests += requests
        self.amount = self.amount + amount if self.requests else 0.0  # whatever sums of fractions leave behind


class _Share(_Taken):
    """One session: what it has taken, and what it missed within a minute."""

    __slots__ = ("missed", "misses")

    def __init__(self) -> None:
        super().__init__()
        self.missed = 0.0
        self.misses: deque[Miss] = deque()

    @property
    def asked(self) -> float:
        return self.amount + self.missed

    def owed(self, entitled: float) -> float:
        """What is kept for it: the rest of its share, if it missed something, in whole requests of its usual size.

        Of less than a request nobody would have anything.
        """
        if not self.misses or self.amount >= entitled:
            return 0.0
        usual = self.asked / (self.requests + len(self.misses))
        return math.floor((min(entitled, 1.0) - self.amount) / usual + _NEARLY) * usual


class Shares:
    """What every session has taken of one quota within a minute, and what it is owed."""

    __slots__ = ("_callers", "_entitlements", "_of", "_owed", "_window_seconds")

    def __init__(self, window_seconds: float) -> None:
        self._of: dict[SessionKey, _Share] = {}
        self._callers: dict[Caller, _Taken] = {}
        self._window_seconds = window_seconds
        self._entitlements: dict[SessionKey, float] | None = None
        self._owed: float | None = None
        """Kept until something changes: everybody who waits is asked about, and the answer is in the sum of all."""

    @property
    def misses(self) -> int:
        """How many requests of the last minute had to wait or went elsewhere."""
        return sum(len(share.misses) for share in self._of.values())

    def taken(self, who: SessionKey) -> tuple[float, float]:
        """By the caller, and by the session: whoever has taken less goes first."""
        caller, share = self._callers.get(who.caller), self._of.get(who)
        return caller.amount if caller is not None else 0.0, share.amount if share is not None else 0.0

    def take(self, who: SessionKey, amount: float) -> None:
        self._count(who, amount, 1)

    def give_back(self, who: SessionKey, amount: float) -> None:
        """A request is a minute old, or was never sent."""
        self._forget_if_idle(who, self._count(who, -amount, -1))

    def miss(self, who: SessionKey, amount: float, now: float) -> Miss:
        share, miss = self._share(who), Miss(who, amount, now)
        share.missed += amount
        share.misses.append(miss)
        self._change()
        return miss

    def forgive(self, miss: Miss) -> None:
        """Whoever waited has its turn, or is gone: nothing is owed for that."""
        if miss.is_owed:
            self._drop(miss)

    def expire(self, now: float) -> None:
        """What was missed more than a minute ago is no longer owed."""
        shares = [share for share in self._of.values() if share.misses]
        for share in shares:
            while share.misses and now >= share.misses[0].at + self._window_seconds:
                self._drop(share.misses[0])

    def may_take(self, who: SessionKey, amount: float, free: float) -> bool:
        """Whether a session may take this of what is left: its own share, or what nobody is owed.

        One request is within every share: else one that is larger than a share would wait for ever.
        """
        own = self._of.get(who)
        if own is None or not own.requests:
            return True
        entitled = self._entitled()
        if own.amount + amount <= entitled[who] + _NEARLY:
            return True
        if self._owed is None:
            self._owed = math.fsum(share.owed(entitled[other]) for other, share in self._of.items())
        return free - amount >= self._owed - own.owed(entitled[who]) - _NEARLY

    def line_up(self, asking: Iterable[_A]) -> list[_A]:
        """In the order in which they are served if nobody else comes: least taken first, and who was served has taken."""
        callers: defaultdict[Caller, list[tuple[float, int, _A]]] = defaultdict(list)
        more: defaultdict[SessionKey, float] = defaultdict(float)
        for ask in asking:
            callers[ask.who.caller].append((self.taken(ask.who)[1] + more[ask.who], ask.number, ask))
            more[ask.who] += ask.amount
        ordered: list[tuple[float, int, _A]] = []
        for sessions in callers.values():
            sessions.sort()
            taken = self.taken(sessions[0][2].who)[0]
            for _, number, ask in sessions:
                ordered.append((taken, number, ask))
                taken += ask.amount
        return [ask for _, _, ask in sorted(ordered)]

    def next_change(self) -> float | None:
        """When the next miss is no longer owed."""
        return min((share.misses[0].at + self._window_seconds for share in self._of.values() if share.misses), default=None)

    def share_of(self, who: SessionKey) -> float:
        """How much of a minute a session may take now, whatever the others do."""
        return self._entitled().get(who, 1.0)

    def _change(self) -> None:
        self._entitlements = self._owed = None

    def _entitled(self) -> dict[SessionKey, float]:
        if self._entitlements is not None:
            return self._entitlements
        callers: dict[Caller, list[SessionKey]] = {}
        for who in self._of:
            callers.setdefault(who.caller, []).append(who)
        asked = {caller: math.fsum(self._of[who].asked for who in sessions) for caller, sessions in callers.items()}
        max_part = equal_part(list(asked.values()), 1.0)
        found: dict[SessionKey, float] = {}
        for caller, sessions in callers.items():
            part = equal_part([self._of[who].asked for who in sessions], min(max_part, asked[caller]))
            found.update(dict.fromkeys(sessions, part))
        self._entitlements = found
        return found

    def _count(self, who: SessionKey, amount: float, requests: int) -> _Share:
        share, caller = self._share(who), self._callers.setdefault(who.caller, _Taken())
        share.add(amount, requests)
        caller.add(amount, requests)
        self._change()
        if not caller.requests:
            del self._callers[who.caller]
        return share

    def _share(self, who: SessionKey) -> _Share:
        share = self._of.get(who)
        if share is None:
            share = self._of[who] = _Share()
        return share

    def _drop(self, miss: Miss) -> None:
        share = self._of[miss.who]
        miss.is_owed = False
        share.misses.remove(miss)
        share.missed = share.missed - miss.amount if share.misses else 0.0
        self._change()
        self._forget_if_idle(miss.who, share)

    def _forget_if_idle(self, who: SessionKey, share: _Share) -> None:
        if not share.requests and not share.misses:
            del self._of[who]


def equal_part(asked: Sequence[float], all_there_is: float) -> float:
    """What each gets at most, so that together they get all there is. No bound where it is enough for all."""
    left = all_there_is
    for index, amount in enumerate(sorted(asked)):
        part = left / (len(asked) - index)
        if amount > part + _NEARLY:
            return part
        left -= amount
    return math.inf
