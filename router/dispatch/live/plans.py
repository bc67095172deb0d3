"""What is known of each person's plan: its windows, whether it is used up, and whether it fails. In memory only.

A plan belongs to a login. What its vendor says to one caller concerns no other, so it is kept by the digest of the credential
and shared with nobody: the state of the target itself holds only what all callers have in common, such as a lost connection.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b

from msgspec import structs

from router.contract.credential import credential_for
from router.contract.errors import TandemError, UpstreamBarred, UpstreamRefused
from router.contract.exchange import Exchange
from router.contract.facts import PlanTold, Read
from router.contract.notices import Notice, Trouble
from router.contract.plan_use import PlanWindow, UsedUp, held_back, say_held_back, shadow_share
from router.contract.request import RequestView
from router.contract.signals import Signals, Turn
from router.contract.target import Target, TargetStatus
from router.dispatch.live.circuit import Circuit

_MAX_KEPT = 1_000
"""Logins, each at one target; those that were not heard of for the longest time are dropped first."""
_PROBE_SECONDS = 60.0
"""How often a request that only a used-up plan can serve asks it again: people buy more."""
_RESTED_WAIT_SECONDS = 60.0
_MAX_REFUSAL_BYTES = 16_384
"""Of a refusal that is kept; vendors' have a few hundred."""
_HINT = "wait until then, or add another target to its tier"

_Place = tuple[str, str]


class PlanState:
    """A plan at one target, for one login."""

    __slots__ = ("asked_at", "caller", "circuit", "refusal", "used_up", "used_up_at", "windows")

    def __init__(self, caller: str) -> None:
        self.caller = caller
        self.circuit = Circuit()
        self.windows: tuple[PlanWindow, ...] = ()
        self.used_up: UsedUp | None = None
        self.used_up_at = self.asked_at = 0.0
        """When it was first and last refused, in seconds since 1970."""
        self.refusal: UpstreamRefused | None = None
        """In the vendor's own words, for this login alone."""


class Plans:
    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._states: dict[_Place, PlanState] = {}

    def __len__(self) -> int:
        return len(self._states)

    def note(self, exchange: Exchange, fact: PlanTold) -> None:
        """Take what an answer reports of the plan's windows."""
        if (state := self._state_of(exchange, fact.target)) is not None:
            state.windows = fact.windows

    def refuse(self, exchange: Exchange, target: Target, error: TandemError, now: float) -> bool:
        """Take a plan's refusal. Returns whether it concerns this login alone: lost connections concern everyone."""
        if not isinstance(error, (UpstreamRefused, UpstreamBarred)):
            return False
        state = self._state_of(exchange, target)
        if state is None:
            return True
        if isinstance(error, UpstreamRefused) and error.used_up is not None:
            wall = self._wall()
            if state.used_up is None:
                state.used_up_at = wall
            state.used_up, state.asked_at = error.used_up, wall
            size = len(error.body) + (len(error.as_sent.body) if error.as_sent is not None else 0)
            state.refusal = error.without_frames() if size <= _MAX_REFUSAL_BYTES else None
        else:
            fault = error.fault if isinstance(error, UpstreamBarred) else None
            state.circuit.fail(now, error.code, fault=fault)
        return True

    def serve(self, exchange: Exchange, target: Target, now: float) -> None:
        """A plan answered: whatever kept it away is over."""
        if (state := self._state_of(exchange, target)) is not None:
            state.circuit.serve(now)
            state.used_up = state.refusal = None

    def has_trouble(self, target: str) -> bool:
        """Whether a plan at this target is used up or fails: an answer of it then matters."""
        own = (state for (name, _), state in self._states.items() if name == target)
        return any(state.used_up is not None or state.circuit.failures for state in own)

    def apply(self, signals: Signals, names: Iterable[str], view: RequestView, now: float) -> Signals:
        """The plans of these names, as they are for the login of this request."""
        statuses, open_ones, shadow = dict(signals.statuses), set[str](), dict[str, float]()
        for name in names:
            credential = credential_for(statuses[name].target, view.headers, view.dialect)
            if credential is None:
                continue
            if (state := self._states.get((name, credential.digest))) is not None:
                statuses[name], share = self._look(statuses[name], state, signals.turn, now)
                shadow |= {name: share} if share else {}
            if not statuses[name].closed_seconds and not statuses[name].is_resting:
                open_ones.add(name)
        return structs.replace(signals, statuses=statuses, own_plans=frozenset(open_ones), shadow=shadow)

    def _look(self, status: TargetStatus, state: PlanState, turn: Turn, now: float) -> tuple[TargetStatus, float]:
        """A plan's status, and the share of the list price that its tokens are weighed by.

        A running turn stays where it is until the plan itself refuses: `use_up_to` moves whole turns.
        """
        wall, target = self._wall(), status.target
        if (used_up := state.used_up) is not None:
            if used_up.until > wall:
                may_probe = wall - state.asked_at >= _PROBE_SECONDS
                closed = {"closed_seconds": used_up.until - wall, "used_up": used_up.words, "may_probe": may_probe}
                return structs.replace(status, **closed, refusal=state.refusal), 0.0
            state.used_up = state.refusal = None
        if state.circuit.is_resting(now):
            because = f"{target.name} rests for your login after {state.circuit.failures} failures"
            return status.with_wait(max(status.wait_seconds, _RESTED_WAIT_SECONDS), because, is_resting=True), 0.0
        limits, stays = target.use_up_to, turn.position.is_running and target.name in turn.position.warm
        if limits is not None and not stays and (full := held_back(state.windows, limits, wall)) is not None:
            words = say_held_back(full)
            return structs.replace(status, closed_seconds=full.resets_at - wall, used_up=words, may_probe=True), 0.0
        listed, share = target.list_price, shadow_share(state.windows, wall)
        if listed is None or not share:
            return status, 0.0
        return structs.replace(status, target=structs.replace(target, price=listed.times(share))), share

    def find_troubles(self, targets: Mapping[str, Target]) -> Iterator[Notice]:
        """A notice for each plan that is used up, for its own person."""
        wall = self._wall()
        for (name, digest), state in self._states.items():
            if name in targets and state.used_up is not None and state.used_up.until > wall:
                text = f"{name}: {state.used_up.words}"
                plan = blake2b(f"{name} {digest}".encode(), digest_size=6).hexdigest()
                yield Notice(Trouble.PLAN_USED_UP, state.caller, state.used_up_at, text, _HINT, plan)

    def _state_of(self, exchange: Exchange, target: Target) -> PlanState | None:
        """None for a request without a login."""
        read = exchange.last(Read)
        credential = credential_for(target, read.view.headers, read.view.dialect) if read is not None else None
        if credential is None:
            return None
        place = (target.name, credential.digest)
        state = self._states.pop(place, None) or PlanState(exchange.caller.name)
        self._states[place] = state
        if len(self._states) > _MAX_KEPT:
            del self._states[next(iter(self._states))]
        return state
