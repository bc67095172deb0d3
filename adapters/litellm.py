"""Targets of any provider that litellm knows. Chat goes in, Chat comes back; litellm never decides, retries or logs for us."""

import asyncio
from typing import Any, ClassVar

import orjson

from adapters.litellm_answers import DONE, ChunkWriter, answer_headers, stream_usage, write_whole
from adapters.litellm_causes import failed_inside, find_cause
from adapters.litellm_library import begin_loading, load_library, withhold_credentials
from adapters.litellm_refusals import find_answer, read_refusal
from adapters.litellm_request import has_thinking_budget, read_fields, takes_marks, without_lost_thinking
from router.contract.errors import (
    UpstreamCut,
    UpstreamError,
    UpstreamModel,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from router.contract.relay import Adapter, AdapterSettings, Endpoint, OutgoingRequest, Sink, Upstream, UpstreamCall
from router.contract.words import Dialect

_NO_KEY = "none"
"""For a target without a key: given nothing, litellm looks for one by itself."""
_NEVER_SECONDS = 86_400.0
"""Waits are bounded by our own timer and the request's deadline, so litellm's must not come first."""
_tasks: set[asyncio.Task[None]] = set()


class LitellmAdapter(Adapter):
    """One call of litellm for each request, with the target's own key alone. Needs the extra `litellm`."""

    name: ClassVar[str] = "litellm"
    speaks: ClassVar[frozenset[Dialect]] = frozenset({Dialect.CHAT})
    needs_address: ClassVar[bool] = False
    relays_bytes: ClassVar[bool] = False
    takes_extra: ClassVar[frozenset[str]] = frozenset({"headers"})
    library: ClassVar[str] = "litellm"

    def __init__(self, endpoint: Endpoint, settings: AdapterSettings, upstream: Upstream) -> None:
        self._endpoint = endpoint

    @classmethod
    def caches_when_asked(cls, model: str) -> bool:
        """Claude, at providers for which litellm translates the marks of a chat request."""
        return takes_marks(model)

    def warm(self) -> None:
        """Import litellm in the background. A request that needs it sooner waits for it."""
        begin_loading()

    def open(self, request: OutgoingRequest, sink: Sink) -> UpstreamCall:
        """Ask through litellm and push what comes, as Chat."""
        endpoint = self._endpoint
        return _LitellmCall(request, sink, endpoint.key_for(request), endpoint.base_url, dict(endpoint.extra_headers))


class _LitellmCall:
    """One answer under way: a task that pulls from litellm and pushes into the sink."""

    def __init__(self, request: OutgoingRequest, sink: Sink, key: str, base_url: str, headers: dict[str, str]) -> None:
        self._sink, self._key, self._base_url, self._headers = sink, key, base_url, headers
        self._name, self._timeouts = request.target.name, request.target.timeouts
        body: dict[str, Any] = orjson.loads(request.body)
        self._fields = read_fields(body)
        self._is_streaming = body.get("stream") is True
        self._loop = asyncio.get_running_loop()
        self._is_over = self._has_begun = self._is_answered = False
        self._may_pull = asyncio.Event()
        self._may_pull.set()
        self._last = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        sink.feed_from(self)
        if self._is_streaming or self._timeouts.bounds_whole_answers:
            self._timer = self._loop.call_later(self._limit(), self._check)
        self._task = self._loop.create_task(self._run(), name=f"litellm {request.view.id}")
        _tasks.add(self._task)
        self._task.add_done_callback(_tasks.discard)

    def pause(self) -> None:
        """Pull no further piece until resumed."""
        self._may_pull.clear()

    def resume(self) -> None:
        """Go on."""
        self._last = self._loop.time()
        self._may_pull.set()

    def cancel(self) -> None:
        """Hang up: the task closes what litellm has open."""
        self._end()
        self._task.cancel()

    async def _run(self) -> None:
        try:
            litellm = await load_library()
        except ImportError:
            self._fail(UpstreamUnreachable(self._name, f'target "{self._name}" needs litellm, which is not installed'))
            return
        try:
            answer = await self._ask(litellm)
            if self._is_streaming:
                await self._push_stream(answer)
            else:
                self._push_whole(answer)
        except Exception as error:  # noqa: BLE001  a vendor's exception of any kind must not cross this door
            self._explain(litellm, error)

    async def _ask(self, litellm: Any) -> Any:
        import httpx  # comes with litellm

        # A variable that was set after the import would be found by litellm; whoever set it did not mean that.
        withhold_credentials()
        litellm.success_callback.clear()  # one of its providers adds a callback by itself
        fields = self._fields
        if has_thinking_budget(litellm, fields["model"]):
            fields = without_lost_thinking(fields)
        return await litellm.acompletion(
            **fields,
            api_key=self._key or _NO_KEY,
            api_base=self._base_url or None,
            extra_headers=self._headers or None,
            max_retries=0,
            num_retries=0,
            drop_params=True,
            _skip_mcp_handler=True,  # else offered tools need the mcp library, and one of them could name a server to call
            timeout=httpx.Timeout(_NEVER_SECONDS, connect=self._timeouts.connect_seconds),
        )

    async def _push_stream(self, stream: Any) -> None:
        writer, usage = ChunkWriter(), None
        self._touch(is_answered=True)
        try:
            async for chunk in stream:
                self._touch()
                usage = stream_usage(stream, chunk) or usage
                frame = writer.frame(chunk)
                if b'"finish_reason":"' in frame and _has_invented_its_end(stream):
                    self._fail(UpstreamCut(self._name, f'target "{self._name}" ended its stream without the terminal event'))
                    return
                if frame:
                    self._push(frame, stream)
                await self._may_pull.wait()
        finally:
            await stream.aclose()
        if not self._has_begun:
            self._fail(UpstreamCut(self._name, f'target "{self._name}" ended its stream before the first event'))
            return
        self._push((writer.usage_frame(usage) if usage else b"") + DONE, stream)
        self._finish()

    def _push(self, data: bytes, answer: Any) -> None:
        if self._is_over:
            return
        if not self._has_begun:
            self._has_begun = True
            kind = "text/event-stream" if self._is_streaming else "application/json"
            self._sink.start(200, (("content-type", kind), *answer_headers(answer)))
        self._write(data)

    def _write(self, data: bytes) -> None:
        """Every word to the sink may make it hang up: nothing is said after that."""
        if not self._is_over:
            self._sink.write(data)

    def _push_whole(self, answer: Any) -> None:
        self._push(write_whole(answer), answer)
        self._finish()

    def _finish(self) -> None:
        if not self._is_over:
            self._end()
            self._sink.end()

    def _explain(self, litellm: Any, error: Exception) -> None:
        """Say what went wrong in our own words, or hand on what a provider answered."""
        name = self._name
        if self._has_begun:
            self._fail(UpstreamCut(name, f'target "{name}" closed the connection in the middle of its answer'))
            return
        cause = getattr(error, "original_exception", None)
        error = (
            cause if isinstance(error, litellm.exceptions.MidStreamFallbackError) and isinstance(cause, Exception) else error
        )
        refusal, answered = read_refusal(error, self._key), find_answer(error) is not None
        if isinstance(error, litellm.Timeout) and not answered:
            self._fail(UpstreamTimeout(name, f'target "{name}" did not answer in time'))
        elif not answered and (cause := find_cause(name, error)) is not None:
            self._fail(cause)
        elif "LLM Provider NOT provided" in str(error):
            self._fail(UpstreamModel(name, f'target "{name}": litellm has no provider for the configured model'))
        elif refusal is None or isinstance(error, litellm.APIConnectionError):
            self._fail(failed_inside(name, error))
        elif not self._is_over:
            self._sink.start(refusal.status, refusal.headers)
            self._write(refusal.body)
            self._finish()

    def _fail(self, error: UpstreamError) -> None:
        if not self._is_over:
            self._end()
            self._sink.fail(error)

    def _end(self) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def _touch(self, *, is_answered: bool = False) -> None:
        self._is_answered |= is_answered
        self._last = self._loop.time()

    def _limit(self) -> float:
        return self._timeouts.stall_seconds if self._is_answered else self._timeouts.first_byte_seconds

    def _check(self) -> None:
        """One timer for both waits: it checks how long nothing has arrived, and sleeps for the rest."""
        limit = self._limit()
        silent = self._loop.time() - self._last if self._may_pull.is_set() else 0.0
        if silent < limit - 0.001:
            self._timer = self._loop.call_later(limit - silent, self._check)
            return
        what = f"sent nothing for {limit:g} s in mid-answer" if self._is_answered else f"did not begin to answer in {limit:g} s"
        error = UpstreamTimeout(self._name, f'target "{self._name}" {what}')
        self.cancel()
        self._sink.fail(error)


def _has_invented_its_end(stream: Any) -> bool:
    """Whether no finish came from the provider: litellm makes up a good one when a stream merely stops."""
    reasons = [getattr(stream, name, "unknown") for name in ("received_finish_reason", "intermittent_finish_reason")]
    return not any(reasons)
