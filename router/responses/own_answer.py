"""An answer of the router's own, to a request that needs no model."""

import time

import orjson

from router.contract.digits import as_written
from router.contract.facts import Ending
from router.contract.relay import Sink, send_whole
from router.contract.request import RequestView
from router.contract.stores import ResponseStore
from router.contract.usage import Usage
from router.contract.words import Outcome
from router.dialects.answers import compose
from router.dialects.composer import Answer, Finish
from router.dialects.fields import as_object
from router.dialects.headers import id_headers
from router.responses.keep import is_kept, keep_answer

_NOTHING_USED = Usage(0, 0)
_BECAUSE = ("x-tandem-because", "the message is only a tier line, so the router answers it")
_PREWARMED = ("x-tandem-because", "`generate` is false, so no model was called")
_STREAM = (("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"))
_JSON = (("content-type", "application/json"),)


def is_prewarm(view: RequestView) -> bool:
    """Whether a request only prepares what the next one goes on from: nothing is to be generated for it."""
    return view.body.get("generate") is False


def say_here(view: RequestView, words: str, store: ResponseStore, caller: Sink, own: ResponseStore | None = None) -> Ending:
    """Answer with a sentence, or none, in the caller's dialect, streamed or whole. No target is called.

    `view` is the request as it came: a later one may go on from this answer.
    """
    now, because = time.time(), _BECAUSE if words else _PREWARMED
    asks_usage = as_object(view.body.get("stream_options")).get("include_usage") is True
    known = Answer(
        view.id.removeprefix("req_"),
        view.model,
        int(now),
        sends_usage=asks_usage or not view.is_streaming,
        asked=view.as_sent,
    )
    composer = compose(view.dialect, known)
    text = composer.text(words) if words else b""
    frames = composer.open() + text + composer.close(Finish.STOP, _NOTHING_USED)
    whole = composer.whole()
    if is_kept(view, on_socket=own is not None):
        keep_answer(store, view, None, now, whole, own=own)
    if view.is_streaming:
        caller.start(200, (*_STREAM, *id_headers(view.id), because))
        caller.write(frames)
        caller.end()
    else:
        send_whole(caller, (*_JSON, *id_headers(view.id), because), orjson.dumps(whole, default=as_written))
    return Ending(Outcome.SERVED, 200)
