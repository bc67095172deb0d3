"""A request as one target gets it: the caller's own bytes, or translated."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from router.contract.relay import Adapter, OutgoingRequest
from router.contract.request import JsonObject, RequestView
from router.contract.secret import Secret
from router.contract.target import Target
from router.contract.tracing import TraceHeaders
from router.contract.words import Dialect, Operation, Tier
from router.dialects.as_sent import is_returned, is_returned_by_stream
from router.dialects.cap import Cap
from router.dialects.fitting import Fit, Reasons, fields_to_change, reasons_to_change
from router.dialects.hosts import STREAM_OPTIONS
from router.dialects.splice import replace_model
from router.dialects.unasked import ASKING, ask
from router.dispatch.keys import KeyGuard, guard_for
from router.dispatch.passed_headers import is_passed, is_passed_by_stream, is_passed_to_keys, is_passed_to_keys_by_stream

if TYPE_CHECKING:
    from router.dialects.translate.translator import AnswerTranslator


class UsageAsking:
    """Asks a target for usage that the caller did not want, until it refuses, or reports it unasked."""

    __slots__ = ("has_refused", "is_on")

    def __init__(self) -> None:
        self.is_on = True
        self.has_refused = False

    def refuse(self) -> None:
        """Stop asking, until the router or its config is loaded again."""
        self.is_on, self.has_refused = False, True

    def note_end(self, *, tells_unasked: bool) -> None:
        """An engine that reports usage unasked need not be asked."""
        self.is_on = not tells_unasked and not self.has_refused


class _NotAsking(UsageAsking):
    """For a request sent again without the question. Only its success shows what was refused."""

    __slots__ = ("_usual",)

    def __init__(self, usual: UsageAsking) -> None:
        super().__init__()
        self.refuse()
        self._usual = usual

    def note_end(self, *, tells_unasked: bool) -> None:
        self._usual.refuse()


@dataclass(frozen=True, slots=True)
class Reachable:
    """A target as dispatch reaches it."""

    target: Target
    adapter: Adapter
    model: str
    fit: Fit
    secret: Secret | None = None
    """The target's key; never a caller's own, which that caller may see."""
    keeps_sessions: bool = False
    more_secrets: tuple[Secret, ...] = ()
    """Other secrets sent to it: values of its `headers:` and `query:`."""
    trace: TraceHeaders | None = None
    hides_limits: bool = False
    """Whether its rate limits are nothing to callers: they have keys of this router, with limits of their own."""
    health_path: str = ""
    """Where a local engine can be asked while it rests; empty for other targets."""
    is_own_name: Callable[[str], bool] = lambda name: True
    """Whether a model's name is Tandem's. A plan gets others as its client wrote them."""
    asking: UsageAsking = field(default_factory=UsageAsking)
    reasons: Mapping[Dialect, Reasons] = field(init=False)
    """What may have to change, by its own dialects. One in which every request changes is absent."""
    guard: KeyGuard = field(init=False)
    may_pass: Callable[[str], bool] = field(init=False)
    """Whether callers see a header of its whole answers; `may_stream`, of its streams."""
    may_stream: Callable[[str], bool] = field(init=False)
    needs_more: bool = field(init=False)
    """Whether an attempt takes more than the body and a relay."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "needs_more", self.keeps_sessions or self.trace is not None or self.fit.cap is not None)
        object.__setattr__(self, "reasons", reasons_to_change(self.target, self.fit))
        if STREAM_OPTIONS in self.fit.quirks.refuses:
            self.asking.refuse()
        object.__setattr__(self, "guard", guard_for(self.secret, self.more_secrets))
        object.__setattr__(self, "may_pass", is_passed_to_keys if self.hides_limits else is_passed)
        object.__setattr__(self, "may_stream", is_passed_to_keys_by_stream if self.hides_limits else is_passed_by_stream)
        if self.target.is_plan:  # its limits are the caller's own
            object.__setattr__(self, "may_pass", is_returned)
            object.__setattr__(self, "may_stream", is_returned_by_stream)

    def without_asking(self) -> "Reachable":
        """The target seems to refuse the question for usage."""
        return replace(self, asking=_NotAsking(self.asking))

    def capped(self, cap: Cap) -> "Reachable":
        return replace(self, fit=self.fit._replace(cap=cap))


class Outgoing(OutgoingRequest, frozen=True):
    dropped: tuple[str, ...] = ()
    answer: "AnswerTranslator | None" = None
    is_counted_here: bool = False
    """No other dialect can count, and an answer would cost money: the router's own count must do."""


def may_ask_usage(view: RequestView, target: Target) -> bool:
    """Bridges always ask."""
    dialect = target.dialect_for(view.dialect)
    return view.is_streaming and (dialect in ASKING if dialect is not view.dialect else bool(ask(view)))


def prepare(view: RequestView, reachable: Reachable, prompt_tokens: int) -> Outgoing:
    """Raises `BadRequest` if the target could only misunderstand the request."""
    target, dialect = reachable.target, view.dialect
    reasons = reachable.reasons.get(dialect)
    changes: JsonObject = {}
    dropped: tuple[str, ...] = ()
    if reasons is None or not reasons.leave_alone(view, target):
        if target.dialect_for(dialect) is not dialect:
            return _translate(view, reachable, prompt_tokens)
        if target.is_plan:
            return _leave_as_sent(view, reachable, prompt_tokens)
        changes, dropped = fields_to_change(view, target, reachable.fit)
    if view.is_streaming and reachable.asking.is_on and (added := ask(view)):
        if STREAM_OPTIONS in view.body:  # own options, which few callers send
            changes, added = {**changes, **added}, {}
        body = replace_model(view.raw, view.body, reachable.model, changes, has_one_model=view.has_one_model, added=added)
        return Outgoing(view, target, dialect, body, prompt_tokens, asks_usage=True, dropped=dropped)
    body = replace_model(view.raw, view.body, reachable.model, changes, has_one_model=view.has_one_model)
    return Outgoing(view, target, dialect, body, prompt_tokens, dropped=dropped)


def _leave_as_sent(view: RequestView, reachable: Reachable, prompt_tokens: int) -> Outgoing:
    """A plan's request: changed only where a name or a piece of reasoning is not the plan's."""
    target = reachable.target
    changes, dropped = fields_to_change(view, target, reachable.fit)
    is_clients = target.tier is Tier.DEEP and not reachable.is_own_name(view.model)
    model, body = view.model if is_clients else reachable.model, view.raw
    if changes or model != view.model:
        body = replace_model(view.raw, view.body, model, changes, has_one_model=view.has_one_model)
    return Outgoing(view, target, view.dialect, body, prompt_tokens, dropped=dropped)


def _translate(view: RequestView, reachable: Reachable, prompt_tokens: int) -> Outgoing:
    target, fit = reachable.target, reachable.fit
    if view.operation is Operation.COUNT_TOKENS:
        return Outgoing(view, target, view.dialect, view.raw, prompt_tokens, is_counted_here=True)
    from router.dialects.translate.bridges import BRIDGES  # only where a client and a target speak different dialects
    from router.dialects.translate.context import WriteContext

    dialect, quirks = target.dialect_for(view.dialect), fit.quirks
    if reachable.asking.has_refused:
        quirks = quirks._replace(refuses=quirks.refuses | {STREAM_OPTIONS})
    context = WriteContext(target, reachable.model, quirks, fit.efforts, prompt_tokens, fit.caches_when_asked, fit.cap)
    bridge = BRIDGES[view.dialect, dialect]
    translated = bridge.cross(view, context, created=int(time.time()), instructions=fit.instructions)
    return Outgoing(view, target, dialect, translated.body, prompt_tokens, dropped=translated.dropped, answer=translated.answer)
