"""An answer on its way back over a bridge: bytes of the target's dialect in, bytes of the caller's out."""

import orjson

from router.contract.request import Json, JsonObject
from router.contract.words import Dialect
from router.dialects.bridge.hearing import FrameSplitter, Hearing, read_failure
from router.dialects.compose.parts import Composer
from router.dialects.fields import as_object, as_text
from router.dialects.refusals import foreign_failure, foreign_refusal

_DONE = b"[DONE]"


class BridgedAnswer:
    """One answer. A stream is fed piece by piece; anything else comes whole."""

    __slots__ = ("_caller", "_composer", "_frames", "_has_begun", "_has_ended", "_hearing", "_request_id")

    def __init__(self, caller: Dialect, request_id: str, composer: Composer, hearing: Hearing) -> None:
        self._caller, self._request_id, self._composer, self._hearing = caller, request_id, composer, hearing
        self._frames = FrameSplitter()
        self._has_begun = self._has_ended = False

    def feed(self, data: bytes) -> bytes:
        """Translate what has come. What ends in the middle of a frame waits for the rest of it."""
        out = b""
        for payload in self._frames.feed(data):
            out += self._take(payload)
        return out

    def _take(self, payload: bytes) -> bytes:
        if self._has_ended:
            return b""
        if payload == _DONE:
            return self._end()
        try:
            event: Json = orjson.loads(payload)
        except orjson.JSONDecodeError:
            return b""
        if not isinstance(event, dict):
            return b""
        out = b""
        if not self._has_begun:
            self._has_begun = True
            out = self._composer.open()
        out += self._hearing.hear(event)
        if self._hearing.failure is not None:
            self._has_ended = True
            failure = self._hearing.failure
            return out + foreign_failure(self._caller, 502, failure.message, failure.code, self._request_id)
        return out

    def _end(self) -> bytes:
        self._has_ended = True
        return self._hearing.finish()

    def finish(self) -> bytes:
        """The target's stream is over. Without its last event nothing is added: the caller must see the cut."""
        out = b""
        for payload in self._frames.flush():
            out += self._take(payload)
        return out if self._has_ended else out + self._end()

    def whole(self, raw: bytes) -> bytes:
        """An answer that came in one piece. Raises ValueError when it is no answer."""
        body: Json = orjson.loads(raw)
        if not isinstance(body, dict) or body.get("error"):
            raise ValueError("not an answer")
        self._composer.open()
        self._hearing.hear_whole(body)
        if not self._hearing.is_complete:
            raise ValueError("an answer that failed")
        return orjson.dumps(self._composer.whole())

    def refusal(self, status: int, raw: bytes) -> bytes:
        """A target's error in the caller's dialect, with the target's own words, code and parameter."""
        try:
            body: Json = orjson.loads(raw)
        except orjson.JSONDecodeError:
            body = raw[:2_000].decode("utf-8", "replace")
        if isinstance(body, list) and body:
            body = body[0]
        error: JsonObject = {}
        if isinstance(body, dict):
            inner = body.get("error", body)
            error = as_object(inner)
            body = inner
        failure, param = read_failure(body), as_text(error.get("param"))
        return foreign_refusal(self._caller, status, failure.message, failure.code, param, self._request_id)
