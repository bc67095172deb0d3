"""Translates an answer from the target's dialect into the caller's."""

import orjson

from router.contract.digits import as_written, parse_exactly
from router.contract.errors import TandemError, TooLong
from router.contract.usage import Timings, Usage
from router.contract.words import Dialect
from router.dialects.accounts import account_code
from router.dialects.composer import Composer, Finish
from router.dialects.error_bodies import find_told
from router.dialects.failures import Failure, read_failure
from router.dialects.fields import as_object, as_text
from router.dialects.refusals import failure_words, foreign_refusal, in_callers_words
from router.dialects.translate.frames import FrameSplitter
from router.dialects.translate.parser import MALFORMED, AnswerParser, NotAnAnswer

_DONE = b"[DONE]"
_UNREADABLE = Failure(MALFORMED, "the target sent an unreadable event")


class AnswerTranslator:
    __slots__ = ("_caller", "_composer", "_frames", "_has_begun", "_has_ended", "_parser", "_request_id", "has_failed")

    def __init__(self, caller: Dialect, request_id: str, composer: Composer, parser: AnswerParser) -> None:
        self._caller, self._request_id, self._composer, self._parser = caller, request_id, composer, parser
        self._frames = FrameSplitter()
        self._has_begun = self._has_ended = False
        self.has_failed = False
        """Whether the caller was sent a failure, which is final."""

    @property
    def usage(self) -> Usage | None:
        return self._parser.end.usage

    @property
    def written_bytes(self) -> int:
        """Bytes of text that the target wrote so far."""
        return self._parser.written_bytes

    @property
    def timings(self) -> Timings | None:
        return self._parser.end.timings

    def feed(self, data: bytes) -> bytes:
        if self._has_ended:
            return b""
        out: list[bytes] = []
        try:
            for payload in self._frames.feed(data):
                out.append(self._take(payload))  # noqa: PERF401  a comprehension would lose what came before a bad frame
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
            event = event[0]  # one host wraps its errors in a list
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
        """A keep-alive in the stream's numbering; empty if a comment will do."""
        return b"" if self._has_ended else self._composer.beat()

    def break_off(self, error: TandemError) -> bytes:
        self._has_ended = True
        return self._composer.fail(error.status, error.code, failure_words(error, self._request_id))

    def conclude(self) -> bytes:
        """End a broken stream normally, if the target already said how its answer ended."""
        return b"" if self._has_ended or not self._parser.has_finish else self._end()

    def _end(self) -> bytes:
        self._has_ended = True
        return self._parser.finish()

    def cut(self, usage: Usage) -> bytes:
        """End the answer here, for its length."""
        end = self._parser.end
        end.finish, end.usage = Finish.LENGTH, usage
        return self._end()

    def finish(self) -> bytes:
        """End the stream. Nothing is added if the final event is missing: the caller must see the cut."""
        out: list[bytes] = []
        for payload in self._frames.flush():
            try:
                out.append(self._take(payload))
            except orjson.JSONDecodeError:
                break  # truncated event
            except ValueError:
                out.append(self.conclude() or self._fail(_UNREADABLE))
        if not self._has_ended:
            out.append(self._end())
        return b"".join(out)

    def whole(self, raw: bytes) -> bytes:
        """Raises `NotAnAnswer`."""
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
        told = find_told(raw)
        failure, error = read_failure(told), as_object(told)
        code, param = account_code(error) or failure.code, as_text(error.get("param"))
        return foreign_refusal(self._caller, status, failure.message, code, param, self._request_id)
