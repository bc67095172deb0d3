"""Sending a request to the targets of its decision: `rules` says whom to try, `attempt` tries."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from router.contract.entry import Attempt
from router.contract.errors import BadRequest, UpstreamRefused
from router.contract.exchange import Exchange
from router.contract.facts import AttemptEnded, Decided, Ending, StateRefused
from router.contract.relay import Adapter, Headers, Sink
from router.contract.request import JsonObject, RequestView
from router.contract.target import Target
from router.contract.words import Tier
from router.dialects.opaque import keys_for, refused_by
from router.dispatch.attempt import Ended, Order, attempt, counts_here
from router.dispatch.outgoing import Reachable, prepare
from router.dispatch.rules import Form, GiveUp, Tried, Try, candidates_of, failed_in_words, next_step


class _Form(NamedTuple):
    """The request as one target gets it, and what of it the target may have refused."""

    view: RequestView
    sent_reference: bool
    left_out: tuple[str, ...] = ()
    """Keys of the hidden state that was left out."""


class Dispatcher:
    """Opens calls and relays answers. Knows targets by name; decides nothing."""

    def __init__(self, reachable: Mapping[str, Reachable], *, max_response_bytes: int, clock: Callable[[], float]) -> None:
        self._reachable, self._max_response_bytes, self._clock = reachable, max_response_bytes, clock

    @property
    def adapters(self) -> list[Adapter]:
        """Those that reach the targets."""
        return [entry.adapter for entry in self._reachable.values()]

    async def send(
        self,
        exchange: Exchange,
        decided: Decided,
        sink: Sink,
        *,
        explanation: JsonObject | None = None,
        carried: Mapping[Tier, Headers] = {},
    ) -> Ending:
        """Try targets until one serves. Raises the error that the caller should see when none did and nothing was sent."""
        view, decision = decided.view, decided.decision
        candidates = [self._reachable[name].target for name in candidates_of(decision)]
        order = Order(exchange, decision, sink, self._max_response_bytes, self._clock, explanation, carried)
        tried: list[Tried] = []
        while True:
            step = next_step(candidates, tried, self._clock(), exchange.deadline)
            if isinstance(step, GiveUp):
                raise step.error
            reachable = self._reachable[step.target]
            if step.form is Form.WITHOUT_REFERENCE and view.continued is not None:
                view = view._replace(continued=view.continued.without_reference())
            form = _shape(view, reachable.target, step)
            try:
                ended = await attempt(order, form.view, reachable, failed_in_words(tried, step.target))
            except BadRequest as misfit:  # what this target can only misunderstand another may take as it is
                misfit.__traceback__ = None  # its frames hold the request, and would be held by it
                row = Attempt(step.target, None, misfit.code, 0.0)
                exchange.note(AttemptEnded(self._clock(), reachable.target, row, misfit, None, None, False))
                tried.append(Tried(reachable.target, row, misfit, step.form))
                continue
            if ended.error is None and form.left_out:  # only now is it known that these were what it refused
                exchange.note(StateRefused(reachable.target, form.left_out))
            if ended.ending is not None:
                return ended.ending
            tried.append(_remember(reachable.target, step, form, ended))

    def find_losses(self, view: RequestView, target: str) -> tuple[str, ...]:
        """What this request would lose on its way to a target, or why it cannot go there."""
        reachable = self._reachable[target]
        view = _view_for(view, reachable.target)
        if counts_here(view, reachable.target):
            return ()
        try:
            return prepare(view, reachable, 0).dropped
        except BadRequest as error:
            return (f"cannot be served: {error.message}",)


def _view_for(view: RequestView, target: Target) -> RequestView:
    return view if view.continued is None else view.continued.view_for(view, target)


def _shape(view: RequestView, target: Target, step: Try) -> _Form:
    """The request in the form that a step asks for."""
    sent_reference = view.continued is not None and view.continued.stored_by == target.name
    if step.form is not Form.WITHOUT_STATE:
        return _Form(_view_for(view, target), sent_reference)
    keys = keys_for(_view_for(view, target), target.name)
    stripped = view._replace(origins={**view.origins, **dict.fromkeys(keys, refused_by(target.name))})
    return _Form(_view_for(stripped, target), sent_reference, keys)


def _remember(target: Target, step: Try, form: _Form, ended: Ended) -> Tried:
    assert ended.error is not None
    has_state = isinstance(ended.error, UpstreamRefused) and bool(keys_for(form.view, target.name))
    return Tried(target, ended.attempt, ended.error, step.form, form.sent_reference, has_state)
