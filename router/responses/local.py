"""Answers of the router itself, without a target."""

import time
from collections.abc import Awaitable, Mapping
from typing import Protocol

import orjson

from router.contract.digits import as_written
from router.contract.exchange import Exchange
from router.contract.facts import AnsweredHere, Ending
from router.contract.request import RequestView
from router.contract.rights import Rights, check_tier, rights_in
from router.contract.signals import Alias, TokenCounter, Turn
from router.contract.sinks import AnswerSink, send_whole
from router.contract.stores import ResponseStore
from router.contract.usage import Usage
from router.contract.words import Operation, Outcome, Tier
from router.dialects.fields import as_object
from router.dialects.headers import id_headers
from router.dialects.table import SPECS
from router.responses.keep import is_kept, keep_answer

_COUNT = Operation.COUNT_TOKENS
_SERVED = Ending(Outcome.SERVED, 200)
_NOTHING_USED = Usage(0, 0)
_BECAUSE = ("x-tandem-because", "the message is only a tier line, so the router answers it")
_PREWARMED = ("x-tandem-because", "`generate` is false, so no model was called")
_LEAVE_IT_OUT = "Nothing was changed. Go on without the line, or send `tier: auto` if the message stays in the conversation"
_STREAM = (("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"))
_JSON = (("content-type", "application/json"),)


class Kept(Protocol):
    """The part of the state needed here."""

    @property
    def counter(self) -> TokenCounter: ...
    @property
    def responses(self) -> ResponseStore: ...


class Models(Protocol):
    """Model names that a request may use."""

    def resolve(self, name: str) -> Alias:
        """Raises `UnknownModel`."""
        ...


class Rules(Protocol):
    """The part of the decision rules needed here."""

    @property
    def rights(self) -> Mapping[str, Rights] | None:
        """Rights by caller name; None if unrestricted."""
        ...


class Plan(Protocol):
    """The part of the plan needed here."""

    @property
    def models(self) -> Models: ...
    @property
    def rules(self) -> Rules: ...


def answer_locally(
    exchange: Exchange, view: RequestView, turn: Turn, plan: Plan, kept: Kept, caller: AnswerSink
) -> Awaitable[Ending] | None:
    """Answer a lone tier line, a prewarm on a socket, or a count that all targets share; None if a target must.

    Raises `NotPermitted` for a tier that the caller may not force, `UnknownModel` for such a model.
    """
    if view.operation is _COUNT and SPECS[view.dialect].counts_tokens_here:
        return _count(exchange, view, turn, kept, caller)
    line = turn.line
    if line is not None and line.is_answered_here:
        rights = rights_in(plan.rules.rights, view.caller.name)
        check_tier(line.tier, f"the message asks for {line.tier}", rights, _LEAVE_IT_OUT)
        plan.models.resolve(view.model)
        return _say(exchange, view, turn, _say_tier(line.tier), kept, caller)
    if exchange.arrival.responses is None or view.body.get("generate") is not False:
        return None
    return _say(exchange, view, turn, "", kept, caller)


def _say_tier(tier: Tier | None) -> str:
    return f"Your next message goes to {tier}." if tier is not None else "Tandem chooses the tier of your next message."


async def _count(exchange: Exchange, view: RequestView, turn: Turn, kept: Kept, caller: AnswerSink) -> Ending:
    counted = await kept.counter.count_or_estimate(view)
    exchange.note(AnsweredHere(turn))
    body = {"object": "response.input_tokens", "input_tokens": counted.tokens}
    send_whole(caller, (*_JSON, *id_headers(view.id)), orjson.dumps(body))
    return _SERVED


async def _say(exchange: Exchange, view: RequestView, turn: Turn, words: str, kept: Kept, caller: AnswerSink) -> Ending:
    """Answer with a sentence, or nothing, in the caller's dialect. A later request may continue it."""
    now = time.time()
    asks_usage = as_object(view.body.get("stream_options")).get("include_usage") is True
    from router.dialects.composer import Answer, Finish  # most routers never answer themselves

    known = Answer(
        view.id.removeprefix("req_"),
        view.model,
        int(now),
        sends_usage=asks_usage or not view.is_streaming,
        asked=view.as_sent,
    )
    composer = SPECS[view.dialect].composer(known)
    text = composer.text(words) if words else b""
    frames = composer.open() + text + composer.close(Finish.STOP, _NOTHING_USED)
    whole = composer.whole()
    if is_kept(view, on_socket=exchange.arrival.responses is not None):
        keep_answer(exchange, kept.responses, view, None, now, whole)
    exchange.note(AnsweredHere(turn))
    headers = (*id_headers(view.id), _BECAUSE if words else _PREWARMED)
    if view.is_streaming:
        caller.start(200, (*_STREAM, *headers))
        caller.write(frames)
        caller.end()
    else:
        send_whole(caller, (*_JSON, *headers), orjson.dumps(whole, default=as_written))
    return _SERVED
