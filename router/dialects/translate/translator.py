"""An answer on its way back over a bridge: bytes of the target's dialect in, bytes of the caller's out."""

import orjson

from router.contract.digits import as_written, parse_exactly
from router.contract.errors import TandemError, TooLong
from router.contract.usage import Timings, Usage
from router.contract.words import Dialect
from router.dialects.accounts import account_code
from router.dialects.composer import Composer
from router.dialects.error_bodies import find_told
from router.dialects.fields import as_object, as_text
from router.dialects.refusals import failure_words, foreign_refusal, in_callers_words
from router.dialects.translate.frames import FrameSplitter
from router.dialects.translate.parser import MALFORMED, AnswerParser, Failure, NotAnAnswer, read_failure

_DONE = b"[DONE]"
_UNREADABLE = Failure(MALFORMED, "the target sent an unreadable event")


class AnswerTranslator:
    """One answer. A stream is fed piece by piece; anything else comes whole."""

    __slots__ = ("_caller", "_composer", "_frames", "_has_begun", "_has_ended", "_parser", "_request_id", "has_failed")

    def __init__(self, caller: Dialect, request_id: str, composer: Composer, parser: AnswerParser) -> None:
        self._caller, self._request_id, self._composer, self._parser = caller, request_id, composer, parser
        self._frames = FrameSplitter()
        self._has_begun = self._has_ended = False
        self.has_failed = False
        """Whether the caller was told that the answer failed: nothing that the target still sends can change that."""

    @property
    def usage(self) -> Usage | None:
        return self._parser.end.usage

    @property
    def timings(self) -> Timings | None:
        return self._parser.end.timings

    def feed(self, data: bytes) -> bytes:
        """Translate what has come. What ends in the middle of a frame waits for the rest of it."""
        if self._has_ended:
            return b""
        out: list[bytes] = []
        try:
            for payload in self._frames.feed(data):
                out.append(self._take(payload))  # noqa: PERF401  a list in one go would lose what came before a bad frame
        except ValueError:
            out.append(self.conclude() or self._fail(_UNREADABLE))
        return b"".join(out)

    def _take(self, payload: bytes) -> bytes:
        if self._has_ended:
            return b""
        if payload == _DONE:
            return self._end()
        event = parse_exactly(payload)
        if isinstance(event, list) and event:
            event = event[0]  # how one host writes its errors
        if not isinstance(event, dict):
            return b""
        out = self._open()
        out += self._parser.parse(event)
        if self._parser.failure is not None:
            out += self._fail(self._parser.failure)
        elif self._parser.has_last_event:
            out += self._end()
        return out

    def _open(self) -> bytes:
        if self._has_begun:
            return b""
        self._has_begun = True
        return self._composer.open()

    def _fail(self, failure: Failure) -> bytes:
        if self._has_ended:
            return b""
        self._has_ended = self.has_failed = True
        status = 400 if failure.code == TooLong.code else 502
        message = in_callers_words(self._caller, failure.message, failure.code)
        return self._open() + self._composer.fail(status, failure.code, message)

    def beat(self) -> bytes:
        """A sign of life, in the stream's own numbering; empty where a comment does."""
        return b"" if self._has_ended else self._composer.beat()

    def break_off(self, error: TandemError) -> bytes:
        """The last event of a stream that broke after its first byte, in the stream's own numbering."""
        self._has_ended = True
        return self._composer.fail(error.status, error.code, failure_words(error, self._request_id))

    def conclude(self) -> bytes:
        """The end of a stream that broke, where the target had said how its answer ended: only the line broke after it."""
        return b"" if self._has_ended or not self._parser.has_finish else self._end()

    def _end(self) -> bytes:
        self._has_ended = True
        return self._parser.finish()

    def finish(self) -> bytes:
        """The target's stream is over. Without its last event nothing is added: the caller must see the cut."""
        out: list[bytes] = []
        for payload in self._frames.flush():
            try:
                out.append(self._take(payload))
            except orjson.JSONDecodeError:
                break  # cut in the middle of an event
            except ValueError:
                out.append(self.conclude() or self._fail(_UNREADABLE))
        if not self._has_ended:
            out.append(self._end())
        return b"".join(out)

    def whole(self, raw: bytes) -> bytes:
        """An answer that came in one piece. Raises `NotAnAnswer` for what is none."""
        try:
            body = parse_exactly(raw)
        except orjson.JSONDecodeError as error:
            raise NotAnAnswer("not JSON") from error
        if not isinstance(body, dict) or body.get("error"):
            raise NotAnAnswer("not an answer")
        self._composer.open()
        self._parser.parse_whole(body)
        if not self._parser.is_complete:
            raise NotAnAnswer("an answer that failed")
        try:
            return orjson.dumps(self._composer.whole(), default=as_written)
        except orjson.JSONEncodeError as error:
            raise NotAnAnswer("an answer that is nested too deeply") from error

    def refusal(self, status: int, raw: bytes) -> bytes:
        """A target's error in the caller's dialect, with the target's own words, code and parameter."""
        told = find_told(raw)
        failure, error = read_failure(told), as_object(told)
        code, param = account_code(error) or failure.code, as_text(error.get("param"))
        return foreign_refusal(self._caller, status, failure.message, code, param, self._request_id)
