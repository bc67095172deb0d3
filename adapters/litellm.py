"""Targets of any provider that litellm knows. Chat in, Chat out; litellm never decides, retries or logs."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import orjson
from pydantic import Field

from adapters.litellm_answers import (
    DONE,
    ChunkWriter,
    answer_headers,
    skip_idle_lines,
    stream_usage,
    write_as_stream,
    write_whole,
)
from adapters.litellm_library import begin_loading, load_library, show_variables, withhold_credentials
from adapters.litellm_request import as_whole, can_stream, has_thinking_budget, read_fields, takes_marks, without_lost_thinking
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
_NEVER_SECONDS = 86_400.0
"""Our timer and the request's deadline bound waits, so litellm's must not."""
_tasks: set[asyncio.Task[None]] = set()


class LitellmSettings(AdapterSettings):
    """What some providers need besides a key and an address. No secret belongs here."""

    environment: tuple[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*_[A-Za-z0-9_]*\*?$")], ...] = ()
    """Variables that litellm may read, as in [AWS_*]; keys are hidden otherwise."""
    aws_region_name: str = ""
    """Of Bedrock. Default: AWS's own settings if readable, else us-west-2."""
    aws_profile_name: str = ""
    """A profile of ~/.aws."""
    vertex_project: str = ""
    """In Google Cloud. Default: the credentials'."""
    vertex_location: str = ""
    """Region, such as europe-west4."""
    api_version: str = ""
    """Azure's, such as 2024-10-21."""

    @property
    def given(self) -> dict[str, str]:
        return {name: value for name, value in self.model_dump(exclude={"environment"}).items() if value}

    @property
    def finds_credentials(self) -> bool:
        return bool(self.environment or self.aws_profile_name or self.vertex_project)


class LitellmAdapter(Adapter):
    """APIs that litellm knows. Needs the extra `litellm`."""

    name: ClassVar[str] = "litellm"
    speaks: ClassVar[frozenset[Dialect]] = frozenset({Dialect.CHAT})
    needs_address: ClassVar[bool] = False
    relays_bytes: ClassVar[bool] = False
    takes_extra: ClassVar[frozenset[str]] = frozenset({"headers"})
    library: ClassVar[str] = "litellm"
    Settings: ClassVar[type[AdapterSettings]] = LitellmSettings

    def __init__(self, endpoint: Endpoint, settings: LitellmSettings, upstream: Upstream) -> None:
        self._endpoint, self._given = endpoint, settings.given
        # Without a key, litellm looks for one itself, which it may only if the target says so.
        self._no_key = None if settings.finds_credentials else _NO_KEY
        show_variables(settings.environment)

    @classmethod
    def caches_when_asked(cls, model: str) -> bool:
        return takes_marks(model)

    def warm(self) -> None:
        """Import litellm in the background; requests that need it wait."""
        begin_loading()

    def open(self, request: OutgoingRequest, sink: Sink) -> UpstreamCall:
        endpoint = self._endpoint
        key, headers = endpoint.key_for(request), dict((*request.trace, *endpoint.extra_headers))
        given: dict[str, Any] = {**self._given, "api_key": key or self._no_key, "api_base": endpoint.base_url or None}
        return _LitellmCall(request, sink, key, {**given, "extra_headers": headers or None})


class _LitellmCall:
    def __init__(self, request: OutgoingRequest, sink: Sink, key: str, given: Mapping[str, Any]) -> None:
        self._sink, self._key, self._given = sink, key, given
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
        self._may_pull.clear()

    def resume(self) -> None:
        self._last = self._loop.time()
        self._may_pull.set()

    def cancel(self) -> None:
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
            if not self._is_streaming:
                self._push_whole(answer, write_whole(answer))
            elif can_stream(self._fields["model"]):
                await self._push_stream(answer)
            else:
                self._push_whole(answer, write_as_stream(answer))
        except Exception as error:  # noqa: BLE001  no vendor exception may leave an adapter
            self._explain(litellm, error)

    async def _ask(self, litellm: Any) -> Any:
        import httpx  # comes with litellm

        # litellm would find variables set after the import, too.
        withhold_credentials()
        litellm.success_callback.clear()  # one of its providers adds a callback
        fields = self._fields if can_stream(self._fields["model"]) else as_whole(self._fields)
        if has_thinking_budget(litellm, fields["model"]):
            fields = without_lost_thinking(fields)
        return await litellm.acompletion(
            **fields,
            **self._given,
            max_retries=0,
            num_retries=0,
            drop_params=True,
            _skip_mcp_handler=True,  # else offered tools need the mcp library, and could name a server to call
            timeout=httpx.Timeout(_NEVER_SECONDS, connect=self._timeouts.connect_seconds),
        )

    async def _push_stream(self, stream: Any) -> None:
        writer, usage = ChunkWriter(), None
        skip_idle_lines(stream)
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
        """Write unless the sink hung up, which it may do at every write."""
        if not self._is_over:
            self._sink.write(data)

    def _push_whole(self, answer: Any, written: bytes) -> None:
        self._push(written, answer)
        self._finish()

    def _finish(self) -> None:
        if not self._is_over:
            self._end()
            self._sink.end()

    def _explain(self, litellm: Any, error: Exception) -> None:
        from adapters.litellm_causes import failed_inside, find_cause
        from adapters.litellm_refusals import find_answer, read_refusal

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
        """One timer for both waits: it checks the silence so far, and sleeps for the rest."""
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
    """Whether the provider sent no finish: litellm invents one when a stream just stops."""
    reasons = [getattr(stream, name, "unknown") for name in ("received_finish_reason", "intermittent_finish_reason")]
    return not any(reasons)
