"""Translates the answer of a target with another dialect before the relay sees it."""

import asyncio
from collections.abc import Callable

import orjson

from router.contract.errors import TandemError, UpstreamMalformed
from router.contract.relay import Flow, Headers, Sink
from router.contract.request import JsonObject
from router.contract.words import Dialect
from router.dialects.translate.parser import NotAnAnswer
from router.dialects.translate.translator import AnswerTranslator
from router.dispatch.opening import Opening, begins_well
from router.dispatch.streaming import HEARTBEAT
from router.telemetry import events

_STREAM: Headers = (("content-type", "text/event-stream"),)
_JSON: Headers = (("content-type", "application/json"),)
_UNTRANSLATABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Raised by reading JSON of an unexpected shape."""


class TranslatingSink:
    """Streams pass in pieces, other answers are held. `finished` is done when the answer is no longer awaited."""

    def __init__(
        self,
        answer: AnswerTranslator,
        relay: Sink,
        finished: "asyncio.Future[TandemError | None]",
        *,
        target: str,
        dialect: Dialect,
        is_streaming: bool,
        max_bytes: int,
    ) -> None:
        self._answer, self._relay, self._target, self._max_bytes = answer, relay, target, max_bytes
        self._dialect, self._finished = dialect, finished
        self._opening: Opening | None = None
        self._has_begun = False
        self._wants_stream = is_streaming
        self._status = 0
        self._headers: Headers = ()
        self._is_stream = self._has_failed = False
        self._held: list[bytes] = []
        self._held_bytes = 0

    def feed_from(self, flow: Flow) -> None:
        self._relay.feed_from(flow)

    def start(self, status: int, headers: Headers) -> None:
        self._status = status
        kind = next((value.lower() for name, value in headers if name == "content-type"), "")
        is_events = kind.startswith("text/event-stream") or (not kind and self._wants_stream)
        self._is_stream = 200 <= status < 300 and is_events
        self._headers = tuple(header for header in headers if header[0] not in ("content-type", "content-length"))
        if self._is_stream:
            self._relay.start(status, _STREAM + self._headers)

    def write(self, data: bytes) -> None:
        if self._has_failed:
            return
        if self._is_stream and not self._has_begun:
            self._begin(data)
            return
        # A stream's last events repeat what it said, so that is held: at most as much as a whole answer.
        self._held_bytes += len(data)
        if self._held_bytes > self._max_bytes:
            self._give_up(f"an answer of more than {self._max_bytes} bytes")
        elif self._has_begun:
            self._pass_on(lambda: self._answer.feed(data))
        else:
            self._held.append(data)

    def _begin(self, data: bytes) -> None:
        """A stream that begins with an error can be tried elsewhere."""
        if self._opening is None and begins_well(data):
            self._has_begun = True
            self._pass_on(lambda: self._answer.feed(data))
            return
        if self._opening is None:
            self._opening = Opening(self._dialect, self._finished, self._open, self._refuse)
        self._opening.add(data)

    def _open(self, data: bytes) -> None:
        self._has_begun = True
        self._pass_on(lambda: self._answer.feed(data) or HEARTBEAT)  # comments alone: show the caller that it is alive

    def _refuse(self, status: int, error: JsonObject, held: bytes) -> None:
        self._has_failed = True
        self._relay.start(status, _JSON + self._headers)
        self._relay.write(self._answer.refusal(status, orjson.dumps({"error": error})))
        self._relay.end()

    def end(self) -> None:
        if self._opening is not None:
            self._opening.end()
        if not self._is_stream and not self._has_failed:
            self._relay.start(self._status, _JSON + self._headers)
        self._pass_on(self._answer.finish if self._is_stream else self._translate)
        if not self._has_failed:
            self._relay.end()

    def _pass_on(self, translate: Callable[[], bytes]) -> None:
        """A translation that breaks ends the attempt: the caller must never wait for it."""
        if self._has_failed:
            return
        try:
            data = translate()
        except NotAnAnswer:
            self._give_up("a body that is not valid in its dialect")
            return
        except _UNTRANSLATABLE as error:
            events.bridge_failed(target=self._target, error=error)
            self._give_up("something that cannot be translated")
            return
        if data:
            self._relay.write(data)
        if self._answer.has_failed:
            self._has_failed = True
            self._relay.end()  # the target may never end

    def _give_up(self, what: str) -> None:
        self._has_failed = True
        self._relay.fail(UpstreamMalformed(self._target, f'target "{self._target}" sent {what}'))

    def _translate(self) -> bytes:
        body = b"".join(self._held)
        if 200 <= self._status < 300:
            return self._answer.whole(body)
        return self._answer.refusal(self._status, body)

    def fail(self, error: TandemError) -> None:
        if not self._has_failed:
            self._relay.fail(error)
