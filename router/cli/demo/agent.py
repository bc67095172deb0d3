"""The developer's coding agent: a client like any other, which speaks plain Chat Completions over HTTP."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson

from router.cli.demo.afternoon import Turn
from router.contract.relay import Headers, UpstreamRequest
from router.contract.request import Json, JsonObject
from router.contract.sinks import Collected
from router.contract.target import Timeouts
from router.contract.words import Tier
from router.dialects.fields import as_list, as_object, as_text
from router.upstream.pool import Pool

_TIMEOUTS = Timeouts(connect_seconds=5.0, first_byte_seconds=30.0, stall_seconds=30.0)
_MAX_TRIES = 3
_MAX_RED_RUNS = 4
"""After this many the agent gives up and says so."""
_LOOK, _EDIT, _TEST = "read_file", "edit_file", "run_tests"
_DONE, _GREEN, _RED = "done", "42 passed", "1 failed, 41 passed"
_TOOLS: list[Json] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        },
    }
    for name, description in ((_LOOK, "Read a file."), (_EDIT, "Change a file."), (_TEST, "Run the tests."))
]


class Refused(Exception):
    """The router refused the request, or could not be reached. The message says why."""


class Call(Collected):
    """One request and its answer, as far as it came."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun = asyncio.Event()

    def write(self, data: bytes) -> None:
        super().write(data)
        self.has_begun.set()

    def end(self) -> None:
        super().end()
        self.has_begun.set()

    @property
    def tier(self) -> str:
        return self.fields.get("x-tandem-tier", "")


@dataclass(slots=True)
class Agent:
    """One conversation: it keeps the messages, calls the tools that the model names, and comes again after a 429.

    `headers` go out with every request, as a client's config has them.
    """

    pool: Pool
    url: str
    session: str
    headers: Headers = ()
    speed: float = 1.0
    _messages: list[Json] = field(default_factory=list)

    async def take(self, turn: Turn) -> bool:
        """One turn, from what is typed to the last word: whether its tests are still red at the end. Raises `Refused`."""
        self._messages.append({"role": "user", "content": turn.words})
        work = [_LOOK] * turn.looks + [_EDIT] * turn.edits + [_TEST] * turn.is_tested
        red_runs, has_deep_edit = 0, False
        while work:
            tool = work.pop(0)
            call = await self._ask({"type": "function", "function": {"name": tool}})
            has_deep_edit |= tool == _EDIT and call.tier == Tier.DEEP
            is_red = turn.is_hard and not has_deep_edit
            self._run_tools(_DONE if tool != _TEST else _RED if is_red else _GREEN)
            if tool == _TEST and is_red:
                red_runs += 1
                work += [_EDIT, _TEST] if red_runs < _MAX_RED_RUNS else []
        await self._ask("none", turn.hangs_up_after_seconds)
        return red_runs == _MAX_RED_RUNS

    def _run_tools(self, result: str) -> None:
        calls = as_list(as_object(self._messages[-1]).get("tool_calls"))
        for call in calls:
            self._messages.append({"role": "tool", "tool_call_id": as_object(call)["id"], "content": result})

    async def _ask(self, tool_choice: Json, hang_up_after: float | None = None) -> Call:
        """Send the conversation and read the answer. Simulated models call the tool that the request names."""
        body = {"model": "auto", "stream": True, "messages": self._messages, "tools": _TOOLS, "tool_choice": tool_choice}
        for _ in range(_MAX_TRIES):
            call = Call()
            await self._send(call, orjson.dumps(body), hang_up_after)
            if call.status == 200:
                self._messages.append(read_answer(bytes(call.body)))
                return call
            if call.status != 429:
                break
            await asyncio.sleep(float(call.fields.get("retry-after", 1)))
        raise Refused(f"{call.status} {call.body.decode(errors='replace')}")

    async def _send(self, call: Call, body: bytes, hang_up_after: float | None) -> None:
        """One request. The answer is taken in as it comes, and its rest left where the caller hangs up."""
        headers = (("content-type", "application/json"), ("x-tandem-session", self.session), *self.headers)
        url = f"{self.url}/v1/chat/completions"
        sent = self.pool.open(UpstreamRequest("router", "POST", url, headers, body, _TIMEOUTS), call)
        try:
            await call.has_begun.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if hang_up_after is None else hang_up_after / self.speed):
                    await call.over.wait()
        finally:
            sent.cancel()
        if call.error is not None:
            raise Refused(str(call.error))


def read_answer(stream: bytes) -> JsonObject:
    """The assistant's message out of a stream, as far as it came."""
    texts: list[str] = []
    calls: list[Json] = []
    for delta in _deltas(stream):
        texts.append(as_text(delta.get("content")))
        for piece in as_list(delta.get("tool_calls")):
            _add_piece(calls, as_object(piece))
    return {"role": "assistant", "content": "".join(texts), **({"tool_calls": calls} if calls else {})}


def _deltas(stream: bytes) -> Iterator[JsonObject]:
    for line in stream.split(b"\n"):
        if line.startswith(b"data: {"):
            for choice in as_list(as_object(orjson.loads(line[6:])).get("choices")):
                yield as_object(as_object(choice).get("delta"))


def _add_piece(calls: list[Json], piece: JsonObject) -> None:
    """A call comes with its name first, then its arguments bit by bit."""
    function = as_object(piece.get("function"))
    if piece.get("id"):
        calls.append({"id": piece["id"], "type": "function", "function": {"name": function.get("name"), "arguments": ""}})
    told = as_object(as_object(calls[-1])["function"])
    told["arguments"] = as_text(told["arguments"]) + as_text(function.get("arguments"))
