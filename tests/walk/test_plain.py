"""A house without speedups answers as one with all of them."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from router.contract.exchange import Exchange
from router.contract.facts import Recorded
from router.loop.speedups import PLAIN
from tests.tools.http import call
from tests.tools.running import Running, running, two_targets
from tests.tools.sockets import TERMINAL, open_socket
from tests.tools.speech import Speech, speak
from tests.tools.upstream import Upstream, answer_json

pytestmark = pytest.mark.wire

FAST, DEEP = {"x-tandem-tier": "fast"}, {"x-tandem-tier": "deep"}
_CHANGES = frozenset({"sequence", "at", "overhead_ms", "ttft_ms", "duration_ms", "tokens_per_second"})
_TIMED_HEADERS = re.compile(r"-ms$|^date$|turn-state|^x-ratelimit|processing")
_IDS = re.compile(r"\b(req|resp|msg|fc|rs|cmp|call|chatcmpl|thread)[_-][\w-]{8,}")
_NUMBERS = re.compile(r"\d+(\.\d+)?")


def said(count: int) -> list[dict]:
    """Long enough to be remembered by its bytes from its tenth message on."""
    roles = ("user", "assistant")
    return [{"role": roles[index % 2], "content": f"message {index}: {'some words of it, ' * 90}"} for index in range(count)]


def ask(path: str, text: str, **more: object) -> tuple[str, dict]:
    if path.endswith("responses"):
        return path, {"model": "auto", "input": text, **more}
    if path.endswith("/completions") and "chat" not in path:
        return path, {"model": "auto", "prompt": text, **more}
    return path, {"model": "auto", "max_tokens": 99, "messages": [{"role": "user", "content": text}], **more}


CREATES = ("/v1/chat/completions", "/v1/messages", "/v1/responses")


class Facts:
    def __init__(self) -> None:
        self.noted: list[list[str]] = []

    def handlers(self) -> dict:
        return {Recorded: self.note}

    def note(self, exchange: Exchange, _: Recorded) -> None:
        self.noted.append([type(fact).__name__ for fact in exchange.journal])


class Walker:
    """Keeps what comes back, without what differs between runs."""

    def __init__(self, tandem: Running) -> None:
        self.tandem, self.seen, self.sent = tandem, [], 0

    async def send(self, path: str, body: object, headers: dict[str, str] | None = None) -> dict[str, Any]:
        self.sent += path.startswith("/v1/")
        reply = await call(self.tandem.port, path, body, headers)
        named = {name: steady(value) for name, value in reply.headers.items() if not _TIMED_HEADERS.search(name)}
        assert reply.is_whole
        self.seen.append((path, reply.status, named, steady(reply.body.decode())))
        return json.loads(reply.body) if "json" in reply.headers["content-type"] else {}


def steady(value: Any, name: str = "") -> Any:
    """A value without ids and times."""
    if isinstance(value, dict):
        return {name: steady(each, name) for name, each in value.items() if name not in _CHANGES}
    if isinstance(value, list):
        return [steady(each) for each in value]
    if isinstance(value, float) or name in ("created", "created_at", "completed_at", "seconds"):
        return "a figure"
    if not isinstance(value, str):
        return value
    try:
        parsed = json.loads(value)
    except ValueError:
        return _NUMBERS.sub("0", _IDS.sub(r"\1_", value))
    return steady(parsed) if isinstance(parsed, dict | list) else _NUMBERS.sub("0", value)


async def every_dialect(walker: Walker) -> None:
    for path in CREATES:
        for headers in (FAST, DEEP):
            for is_streaming in (False, True):
                await walker.send(*ask(path, f"fix the typo in {path}", stream=is_streaming), headers)
    await walker.send("/v1/messages/count_tokens", ask("/v1/messages", "how long is this?")[1])


async def lines_and_refusals(walker: Walker) -> None:
    await walker.send(*ask("/v1/chat/completions", "tier: deep\nadd tests"))
    await walker.send(*ask("/v1/messages", "tier: fast"))
    await walker.send("/v1/chat/completions", b'{"model": "auto", "messages": [')
    await walker.send(*ask("/v1/responses", "hello", model="nobody-knows-this"))
    await walker.send(*ask("/v1/messages", "hello"), {"x-tandem-tier": "huge"})
    await walker.send(*ask("/v1/chat/completions", "this one FAILS at fast"), FAST)


async def heavy_bodies(walker: Walker) -> None:
    items = [{"role": "user", "content": f"line {index}"} for index in range(2_500)]
    for path, field in zip(CREATES, ("messages", "messages", "input"), strict=True):
        await walker.send(*ask(path, "x " * 300_000), DEEP)
        await walker.send(path, {**ask(path, "")[1], field: items}, DEEP)
    await walker.send("/tandem/explain", ask("/v1/chat/completions", "y " * 300_000)[1], DEEP)
    await walker.send("/v1/chat/completions", b'{"model": "auto", "messages": [' + b'{"role": 1}, ' * 60_000)


async def several_at_once(walker: Walker) -> None:
    asked = [
        walker.send(*ask(CREATES[number % 3], f"ask number {number}", stream=number % 2 == 0), FAST if number % 5 else DEEP)
        for number in range(24)
    ]
    await asyncio.gather(*asked)


async def growing_histories(walker: Walker) -> None:
    for path, field in (("/v1/chat/completions", "messages"), ("/v1/responses", "input"), ("/v1/messages", "messages")):
        for count in (9, 11, 13, 13, 15, 17, 31, 21):
            await walker.send(path, {**ask(path, "")[1], field: said(count), "stream": count % 4 == 1}, FAST)
        edited = [*said(5), {"role": "user", "content": "tier: deep\nand tests"}, *said(20)[6:], *said(1)]
        await walker.send(path, {**ask(path, "")[1], field: edited})
        await walker.send(path, {**ask(path, "")[1], field: [*edited, *said(4)[1:]]})


async def kept_answers(walker: Walker) -> None:
    for _ in range(2):
        await walker.send(*ask("/v1/chat/completions", "only once"), {**FAST, "idempotency-key": "k1"})
    first = await walker.send(*ask("/v1/responses", "remember this"), DEEP)
    then = await walker.send(*ask("/v1/responses", "and go on", previous_response_id=first["id"]), DEEP)
    named = [{"type": "item_reference", "id": then["output"][0]["id"]}, {"role": "user", "content": "and this"}]
    await walker.send("/v1/responses", {"model": "auto", "input": named}, DEEP)


async def over_a_socket(walker: Walker) -> None:
    async with open_socket(walker.tandem.port, **{"x-tandem-tier": "deep"}) as socket:
        previous = None
        for words in ("fix the typo in a.py", "z " * 300_000, "thanks"):
            await socket.say(words, previous_response_id=previous)
            events = await socket.until(*TERMINAL)
            previous = events[-1]["response"]["id"]
            walker.sent += 1
            walker.seen += steady(events)


WALKS = (every_dialect, lines_and_refusals, heavy_bodies, several_at_once, growing_histories, kept_answers, over_a_socket)


async def answer_what_is_asked(wire, seen) -> None:
    """Answer with the length of the request, and refuse some at the fast tier."""
    if b"FAILS" in seen.body and seen.json["model"] == "fast-model":
        await answer_json({"error": {"message": "no"}}, status=500)(wire, seen)
    else:
        last = json.dumps(seen.json["messages"][-1])
        await speak("chat", Speech(f"heard {len(seen.json['messages'])} messages, the last of {len(last)} characters"))(
            wire, seen
        )


async def walk_through(config: str, folder: Path, walk: Any) -> tuple[list[Any], ...]:
    """Answers, ledger rows and facts of each request."""
    facts = Facts()
    async with running(config, folder, watchers=(facts,)) as tandem:
        walker = Walker(tandem)
        await walk(walker)
        rows = [steady({**row, "id": ""}) for row in await tandem.entries(walker.sent)]
        assert len(rows) == walker.sent
        state = tandem.house.state
        assert bool(state.histories.bodies) is (walk is growing_histories and not state.speedups.is_plain)
    if walk is kept_answers:
        for row in rows:  # ids in a kept history make token counts vary
            (row["decision"] or {}).pop("prompt_tokens", None)
    if walk is several_at_once:  # the order of their ends is random
        return tuple(sorted(found, key=repr) for found in (walker.seen, rows, facts.noted))
    return walker.seen, rows, facts.noted


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.__name__)
async def test_answers_rows_and_facts_are_the_same_without_any_speedup(upstream: Upstream, tmp_path_factory, monkeypatch, walk):
    upstream.scripts = [answer_what_is_asked]
    config = two_targets(upstream.base_url, upstream.base_url, fast_extra="window_tokens: 900000,")

    monkeypatch.delenv(PLAIN, raising=False)
    fast = await walk_through(config, tmp_path_factory.mktemp("fast"), walk)
    monkeypatch.setenv(PLAIN, "1")
    plain = await walk_through(config, tmp_path_factory.mktemp("plain"), walk)

    for with_speedups, without in zip(fast, plain, strict=True):
        assert with_speedups
        assert without == with_speedups
