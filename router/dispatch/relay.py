"""One attempt's answer on its way to the caller.

Until the first event of a good answer nothing is sent, and another target may be tried. Then a stream passes in pieces
(`streaming`). An answer in one piece is held until complete, so that a broken one can be tried elsewhere.
"""

from collections.abc import Mapping

import orjson
from msgspec import field

from router.contract.errors import UpstreamCut, UpstreamMalformed
from router.contract.facts import FirstByte, LimitsTold, PlanTold
from router.contract.relay import Headers
from router.contract.request import JsonObject
from router.dialects.answers import FIRST_TOKEN_MARKS, follow_stream, read_whole_answer
from router.dialects.headers import answer_headers
from router.dialects.refusals import failure_refusal
from router.dialects.sse import Tail
from router.dialects.timings import MARK as TIMINGS_MARK
from router.dialects.timings import read_timings
from router.dispatch.live.limits import REPORTED, read_windows
from router.dispatch.live.plan_windows import read_headers
from router.dispatch.meter import TokenSize
from router.dispatch.opening import Opening, begins_well
from router.dispatch.passed_headers import STREAM_HEADERS, passed_headers, without_other_limits, without_type
from router.dispatch.refused import read_refusal
from router.dispatch.streaming import SilenceWatch, StreamedAnswer

_MAX_ERROR_BYTES = 1 << 20
_FACTS_AT_FIRST_CALL = 3
"""`Read, Decided, AttemptOpened`: nearly every request, whose journal is not searched."""


class Relay(StreamedAnswer, eq=False):
    """`FirstByte` and `FirstToken` are noted after the bytes are written, so observers never delay those."""

    status: int | None = None
    _is_good: bool = False
    _headers: Headers = ()
    _opening: Opening | None = None
    _held: list[bytes] = field(default_factory=list)
    _held_bytes: int = 0
    _own_headers: Headers = ()
    _next_tail: Tail | None = None

    def prepare(self) -> None:
        """Prepare what does not depend on the answer, while the target works."""
        context, opened = self.context, self.opened
        exchange, carried, first_at = context.exchange, context.carried, opened.at
        if len(exchange.journal) > _FACTS_AT_FIRST_CALL:
            first_at = exchange.first_call_at() or first_at
        self._own_headers = answer_headers(
            exchange.id,
            context.decision,
            opened,
            (first_at - exchange.began) * 1000,
            carried.get(opened.target.tier, ()) if carried else (),
            context.explanation,
        )
        if self.view.is_streaming:
            self._next_tail = follow_stream(self.view.dialect, self.view.body, measures=self._translator is None)

    def start(self, status: int, headers: Headers) -> None:
        self.status, self._headers = status, headers
        self._is_good = status // 100 == 2
        fields = dict(headers)
        if not REPORTED.isdisjoint(fields):
            self._read_limits(fields)
        if not self._is_good:
            return
        coding = fields.get("content-encoding")
        if coding and coding != "identity":
            self._settle(self._malformed("compressed its answer, which was not requested"))
        elif self.view.is_streaming:
            kind = fields.get("content-type", "").lower()
            if kind and not kind.startswith("text/event-stream"):
                kind = self._reachable.guard.clean(kind.encode("latin-1", "replace")).decode("latin-1")
                self._settle(self._malformed(f"answered {kind.split(';')[0][:60]} instead of an event stream"))

    def _read_limits(self, fields: Mapping[str, str]) -> None:
        """Note the target's rate limits. A caller over a bridge sees those that have the names of its own dialect."""
        target = self.opened.target
        if windows := read_windows(fields, self.context.clock()):
            self.context.exchange.note(LimitsTold(target, windows))
        if target.is_plan and (used := read_headers(fields)):
            self.context.exchange.note(PlanTold(target, used))
        if self._translator is not None:
            self._headers = without_other_limits(self._headers, self.view.dialect)

    def write(self, data: bytes) -> None:
        tail = self._tail
        if tail is not None:
            if self._mark is not None and data.rfind(self._mark) >= 0:
                self._write_marked(data, tail)
            elif tail.add(data) or data.rfind(self._key_mark) >= 0:
                self._write_part(data, tail)
            else:
                self._caller.write(data)
            if self.silent_checks:
                self.silent_checks = 0
        elif self.finished.done():
            return
        elif self._is_good and self.view.is_streaming:
            self._begin_stream(data)
        else:
            self._hold(data)

    def _begin_stream(self, data: bytes) -> None:
        if self._opening is not None:
            self._opening.add(data)
        elif self._translator is not None or begins_well(data):
            self._commit(data)
        else:
            self._opening = Opening(self.view.dialect, self.finished, self._commit, self._refuse)
            self._opening.add(data)

    def _refuse(self, status: int, error: JsonObject, held: bytes) -> None:
        """The stream begins with an error, despite its good status."""
        body = failure_refusal(self.view.dialect, status, error, self.context.exchange.id)
        if self.opened.target.is_plan:
            sent, self.status = (self.status or 200, held), status
            self._settle(read_refusal(self._reachable, status, self._headers, body, sent))
            return
        self.start(status, (("content-type", "application/json"), *without_type(self._headers)))
        self._hold(body)
        self.end()

    def _commit(self, data: bytes) -> None:
        if not self._own_headers:
            self.prepare()
        dialect, self._opening, tail = self.view.dialect, None, self._next_tail
        assert tail is not None
        self._tail = tail
        reachable = self._reachable
        self._key_mark = mark = reachable.guard.mark
        self.has_reached_caller = True
        passed = passed_headers(self._headers, self.view.id, reachable.guard, reachable.may_stream)
        self._caller.start(200, self._own_headers + STREAM_HEADERS + passed)
        if tail.add(data) or data.rfind(mark) >= 0 or self.hides_usage:
            self._write_part(data, tail)
        else:
            self._caller.write(data)
        self.context.exchange.note(FirstByte(self.opened.target))
        self._mark = mark = FIRST_TOKEN_MARKS[dialect]
        if data.find(mark) >= 0:
            self._note_first_token()
        self._watch = SilenceWatch(self, self.opened.target, self.finished.get_loop(), self._heartbeat_seconds)

    def _hold(self, data: bytes) -> None:
        self._held_bytes += len(data)
        if self._held_bytes <= (self.context.max_bytes if self._is_good else _MAX_ERROR_BYTES):
            self._held.append(data)
        elif self._is_good:
            self._settle(self._malformed(f"sent an answer of more than {self.context.max_bytes} bytes"))
        else:
            self._settle_refused()

    def _settle_refused(self) -> None:
        body, headers = b"".join(self._held), self._headers
        if dict(headers).get("content-encoding", "identity") != "identity":
            words: JsonObject = {
                "message": f'target "{self._target}" answered {self.status} in a compression that was not requested'
            }
            body = failure_refusal(self.view.dialect, self.status or 0, words, self.context.exchange.id)
            headers = (("content-type", "application/json"), *without_type(headers))
        self._settle(read_refusal(self._reachable, self.status or 0, headers, body))

    def end(self) -> None:
        if self._opening is not None:
            self._opening.end()
        if self.finished.done():
            return
        if self._tail is not None:
            self._end_stream(self._tail)
        elif not self._is_good:
            self._settle_refused()
        elif self.view.is_streaming:
            self._settle(UpstreamCut(self._target, f'target "{self._target}" ended its stream before the first event'))
        else:
            self._end_whole(b"".join(self._held))

    def _end_whole(self, body: bytes) -> None:
        try:
            self.usage = read_whole_answer(self.view.dialect, body)
        except ValueError:
            self._settle(self._malformed("sent a body that is not valid in its dialect"))
            return
        if body.rfind(TIMINGS_MARK) >= 0 or self._translator is not None:
            self._read_timings(body)
        if not self._own_headers:
            self.prepare()
        self.has_reached_caller = True
        reachable = self._reachable
        guard = reachable.guard
        if body.rfind(guard.mark) >= 0:
            body = guard.clean(body)
        passed = passed_headers(self._headers, self.view.id, guard, reachable.may_pass)
        headers = self._own_headers + passed + (("content-length", str(len(body))),)
        caller = self._caller
        caller.start(200, headers)
        caller.write(body)
        caller.end()
        self.context.exchange.note(FirstByte(self.opened.target))
        self._settle(None)

    def _read_timings(self, body: bytes) -> None:
        """Translated answers do not show timings."""
        translator = self._translator
        self.timings = read_timings(orjson.loads(body).get("timings")) if translator is None else translator.timings
        if self.usage is None and self.timings is not None:
            self.usage = self.timings.usage

    @property
    def frames_seen(self) -> int:
        return self._tail.frames_seen if self._tail is not None else 0

    @property
    def token_size(self) -> TokenSize:
        return self.context.live.of(self.opened.target).token_size

    def estimate_output_tokens(self) -> int:
        """Output tokens so far, by the text that the model wrote. Reads all kept pieces, so call it rarely."""
        return self.token_size.tokens_in(self.written_bytes)

    @property
    def written_bytes(self) -> int:
        """Bytes of text that the model wrote so far; of a held answer all its bytes."""
        if self._tail is None:
            return self._held_bytes
        return self._tail.written_bytes if self._translator is None else self._translator.written_bytes

    def _malformed(self, what: str) -> UpstreamMalformed:
        return UpstreamMalformed(self._target, f'target "{self._target}" {what}')
