"""Whole sessions against upstreams that refuse foreign reasoning and check that calls have results."""

import asyncio
import json
from hashlib import blake2b

import pytest

from tests.conftest import SIMULATED
from tests.tools.http import call
from tests.tools.running import running
from tests.tools.upstream import answer_json

QUICK = "Fix the typo in the word retrun in calc.py"
LONG = (
    "Refactor the entire billing module: migrate all files to the new API, rewrite the test suite and investigate the deadlock"
)


class Host:
    """Knows only its own reasoning, as real hosts do, in the dialect of each request."""

    def __init__(self, name: str) -> None:
        self.name, self.made, self.asked = name, set(), []
        self.plan: list[str] = []
        self.statuses: list[int] = []

    def blob(self) -> str:
        made = blake2b(f"{self.name}{len(self.made)}".encode(), digest_size=12).hexdigest()
        self.made.add(made)
        return made

    async def __call__(self, wire, seen) -> None:
        body = seen.json
        self.asked.append(body)
        status, answer = self.answer(seen.path, body)
        self.statuses.append(status)
        await answer_json(answer, status)(wire, seen)

    def answer(self, path: str, body: dict) -> tuple[int, dict]:
        if self.plan and self.plan[0].startswith("status"):
            return int(self.plan.pop(0).split()[1]), {"error": {"message": "Busy", "type": "x", "code": "rate_limit_exceeded"}}
        calls_tool = bool(self.plan) and self.plan.pop(0) == "tool"
        return self.respond(body, calls_tool) if path.endswith("/responses") else self.message(body, calls_tool)

    def respond(self, body: dict, calls_tool: bool) -> tuple[int, dict]:
        open_calls = set()
        for item in body["input"]:
            if item.get("type") == "reasoning" and item.get("encrypted_content") not in self.made:
                return 400, {"error": {"message": "could not be verified", "code": "invalid_encrypted_content"}}
            if item.get("type") == "function_call":
                open_calls.add(item["call_id"])
            if item.get("type") == "function_call_output":
                if item["call_id"] not in open_calls:
                    return 400, {"error": {"message": "no tool call found", "code": "bad_pair"}}
                open_calls.discard(item["call_id"])
        if open_calls:
            return 400, {"error": {"message": "no tool output found", "code": "bad_pair"}}
        blob = self.blob()
        mark = f"{self.name}{len(self.made)}"
        output = [{"type": "reasoning", "id": f"rs_{mark}", "summary": [], "encrypted_content": blob}]
        if calls_tool:
            output.append(
                {"type": "function_call", "id": f"fc_{mark}", "call_id": f"call_{mark}", "name": "shell", "arguments": "{}"}
            )
        else:
            text = [{"type": "output_text", "text": f"done by {self.name}", "annotations": []}]
            output.append({"type": "message", "id": f"msg_{mark}", "role": "assistant", "content": text, "status": "completed"})
        tokens = len(json.dumps(body)) // 4
        usage = {"input_tokens": tokens, "output_tokens": 9, "total_tokens": tokens + 9}
        return 200, {"id": f"resp_{mark}", "object": "response", "status": "completed", "output": output, "usage": usage}

    def message(self, body: dict, calls_tool: bool) -> tuple[int, dict]:
        waiting: set[str] = set()
        for message in body["messages"]:
            for block in message["content"] if isinstance(message["content"], list) else []:
                if block["type"] == "thinking" and block["signature"] not in self.made:
                    return 400, {
                        "type": "error",
                        "error": {"type": "invalid_request_error", "message": "Invalid signature in thinking block"},
                    }
                if block["type"] == "tool_use":
                    waiting.add(block["id"])
                if block["type"] == "tool_result":
                    if block["tool_use_id"] not in waiting:
                        return 400, {
                            "type": "error",
                            "error": {"type": "invalid_request_error", "message": "unexpected tool_use_id"},
                        }
                    waiting.discard(block["tool_use_id"])
        blob = self.blob()
        mark = f"{self.name}{len(self.made)}"
        content = [{"type": "thinking", "thinking": "hm", "signature": blob}]
        if calls_tool:
            content.append({"type": "tool_use", "id": f"toolu_{mark}", "name": "Bash", "input": {}})
        else:
            content.append({"type": "text", "text": f"done by {self.name}"})
        stop = "tool_use" if calls_tool else "end_turn"
        usage = {"input_tokens": len(json.dumps(body)) // 4, "output_tokens": 9}
        return 200, {
            "id": f"msg_{mark}",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": content,
            "stop_reason": stop,
            "usage": usage,
        }


class Codex:
    """Codex over HTTP: the whole history each time, its own ids, reasoning sent back."""

    path = "/v1/responses"

    def __init__(self) -> None:
        self.items: list[dict] = []
        self.turn = 0
        self.state: str | None = None

    def headers(self) -> dict[str, str]:
        metadata = json.dumps({"turn_id": f"turn-{self.turn}", "thread_id": "thread-1", "request_kind": "turn"})
        found = {
            "user-agent": "codex_exec/0.166.0",
            "session-id": "s1",
            "thread-id": "thread-1",
            "x-codex-turn-metadata": metadata,
        }
        return {**found, "x-codex-turn-state": self.state} if self.state else found

    def ask(self, words: str, picture: bool = False) -> None:
        self.turn, self.state = self.turn + 1, None
        parts = [{"type": "input_text", "text": words}]
        if picture:
            parts.append({"type": "input_image", "image_url": "data:image/png;base64,AAAA"})
        self.items.append({"type": "message", "role": "user", "content": parts})

    def body(self) -> dict:
        tools = [{"type": "function", "name": "shell", "parameters": {"type": "object"}}]
        return {
            "model": "auto",
            "input": self.items,
            "tools": tools,
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }

    def take(self, reply, result: str) -> bool:
        self.state = reply.headers.get("x-codex-turn-state")
        calls = [item for item in reply.json["output"] if item["type"] == "function_call"]
        self.items += reply.json["output"]
        self.items += [{"type": "function_call_output", "call_id": item["call_id"], "output": result} for item in calls]
        return bool(calls)


class Claude:
    """Claude Code: thinking blocks sent back with their signatures."""

    path = "/v1/messages"

    def __init__(self) -> None:
        self.items: list[dict] = []

    def headers(self) -> dict[str, str]:
        return {"user-agent": "claude-cli/2.1.325", "x-claude-code-session-id": "claude-session-1"}

    def ask(self, words: str, picture: bool = False) -> None:
        blocks: list[dict] = [{"type": "text", "text": words}]
        if picture:
            source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
            blocks.insert(0, {"type": "image", "source": source})
        self.items.append({"role": "user", "content": blocks})

    def body(self) -> dict:
        tools = [{"name": "Bash", "description": "", "input_schema": {"type": "object"}}]
        return {"model": "auto", "max_tokens": 999, "messages": self.items, "tools": tools, "thinking": {"type": "adaptive"}}

    def take(self, reply, result: str) -> bool:
        self.items.append({"role": "assistant", "content": reply.json["content"]})
        calls = [block for block in reply.json["content"] if block["type"] == "tool_use"]
        if calls:
            content = [{"type": "tool_result", "tool_use_id": block["id"], "content": result} for block in calls]
            self.items.append({"role": "user", "content": content})
        return bool(calls)


class OpenCode(Codex):
    """opencode over Responses: a session header, and no turn ids."""

    def headers(self) -> dict[str, str]:
        return {"user-agent": "opencode/1.18.18", "x-session-id": "ses_1"}


def config(fast: str, deep: str, dialect: str) -> str:
    adapter = "anthropic_http" if dialect == "messages" else "openai_http"
    common = f"adapter: {adapter}, dialect: {dialect}"
    return f"""
ledger: {{path: test.db}}
tiers:
  fast:
    targets:
      - {{name: spark, {common}, base_url: "{fast}", model: f, window_tokens: 128000, accepts: [text, tools, reasoning],
         typical: {{ttft_seconds: 0.2, tokens_per_second: 1000, prefill_tokens_per_second: 60000}}}}
  deep:
    targets:
      - {{name: sage, {common}, base_url: "{deep}", model: d, window_tokens: 400000, accepts: [text, tools, reasoning, images],
         typical: {{ttft_seconds: 0.9, tokens_per_second: 65, prefill_tokens_per_second: 60000}}}}
"""


async def go_on(tandem, client, result: str = "ok") -> list[str]:
    """Send requests until the turn is over. Returns the tier of each."""
    tiers = []
    for _ in range(80):
        reply = await call(tandem.port, client.path, client.body(), client.headers())
        assert reply.status == 200, reply.body
        tiers.append(reply.headers["x-tandem-tier"])
        if not client.take(reply, result):
            return tiers
    raise AssertionError("the turn did not end")


@pytest.fixture
def hosts(upstream, other_upstream):
    fast, deep = Host("fast"), Host("deep")
    upstream.scripts, other_upstream.scripts = [fast], [deep]
    return fast, deep


@pytest.mark.parametrize(("client_of", "dialect"), [(Codex, "responses"), (Claude, "messages"), (OpenCode, "responses")])
async def test_thirty_turns_between_two_hosts_that_refuse_each_others_reasoning(
    tmp_path, upstream, other_upstream, hosts, client_of, dialect
):
    (fast, deep), client = hosts, client_of()
    text = config(upstream.base_url, other_upstream.base_url, dialect)
    expected, seen = [], []
    for part in (range(15), range(15, 30)):  # killed and restarted in the middle
        async with running(text, tmp_path) as tandem:
            for number in part:
                is_quick = number % 3 != 1
                (fast if is_quick else deep).plan = ["tool"] * (number % 3 if is_quick else 13)
                client.ask(f"Fix the typo number {number} in file{number}.py" if is_quick else f"{LONG}, part {number}")
                tiers = await go_on(tandem, client)
                assert len(set(tiers)) == 1, f"turn {number} moved: {tiers}"
                expected.append("fast" if is_quick else "deep")
                seen.append(tiers[0])

    assert seen == expected
    assert set(fast.statuses) == set(deep.statuses) == {200}
    blobs = json.dumps(deep.asked[-1])
    kept = [made for made in deep.made if made in blobs]
    assert len(kept) >= len(deep.made) - 1
    assert not any(made in blobs for made in fast.made)


async def test_what_deep_made_comes_back_byte_for_byte_and_in_place_after_a_detour_over_fast(
    tmp_path, upstream, other_upstream, hosts
):
    (_fast, deep), client = hosts, Codex()
    async with running(config(upstream.base_url, other_upstream.base_url, "responses"), tmp_path) as tandem:
        for words in (LONG, QUICK, f"{LONG} again, with more care"):
            client.ask(words)
            await go_on(tandem, client)

    first, last = deep.asked[0]["input"], deep.asked[-1]["input"]
    assert last[: len(first)] == first
    own = [item for item in client.items if item.get("encrypted_content") in deep.made]
    assert own[0] in last
    assert last.index(own[0]) == len(first)


async def test_a_picture_a_full_window_and_a_busy_host_move_a_turn_and_nothing_is_refused(
    tmp_path, upstream, other_upstream, hosts
):
    (fast, deep), client = hosts, Claude()
    async with running(config(upstream.base_url, other_upstream.base_url, "messages"), tmp_path) as tandem:
        client.ask(QUICK)
        assert await go_on(tandem, client) == ["fast"]
        client.ask("What does this picture show?", picture=True)
        assert await go_on(tandem, client) == ["deep"]
        client.items[2]["content"] = client.items[2]["content"][1:]
        fast.plan = ["status 429"]
        client.ask(f"{QUICK} once more")
        assert await go_on(tandem, client) == ["deep"]
        client.ask(f"{QUICK}. Here is the log: " + "word " * 150_000)
        assert await go_on(tandem, client) == ["deep"]

    assert 400 not in fast.statuses + deep.statuses


async def test_a_tool_loop_of_thirty_calls_that_only_looks_around_never_changes_its_tier(
    tmp_path, upstream, other_upstream, hosts
):
    (fast, _deep), client = hosts, Claude()
    async with running(config(upstream.base_url, other_upstream.base_url, "messages"), tmp_path) as tandem:
        fast.plan = ["tool"] * 30
        client.ask(QUICK)

        tiers = await go_on(tandem, client, "3 passed")

    assert tiers == ["fast"] * 31


@pytest.mark.parametrize("failure", ["Process exited with code 1\nboom", "==== 2 failed, 1 passed in 0.1s ===="])
async def test_a_turn_that_keeps_failing_rises_within_five_calls_and_does_not_come_down_again(
    tmp_path, upstream, other_upstream, hosts, failure
):
    (fast, deep), client = hosts, Codex()
    async with running(config(upstream.base_url, other_upstream.base_url, "responses"), tmp_path) as tandem:
        fast.plan, deep.plan = ["tool"] * 20, ["tool"] * 6
        client.ask(QUICK)
        tiers = []
        for _ in range(30):
            reply = await call(tandem.port, client.path, client.body(), client.headers())
            tiers.append(reply.headers["x-tandem-tier"])
            has_risen = tiers[-1] == "deep"
            if not client.take(reply, "9 passed" if has_risen else failure):
                break

    rose_at = tiers.index("deep")
    assert rose_at <= 5
    assert set(tiers[rose_at:]) == {"deep"}


async def test_hidden_state_of_unknown_origin_is_dropped_when_refused_and_never_sent_there_again(
    tmp_path, upstream, other_upstream, hosts
):
    (fast, _deep), client = hosts, Codex()
    client.items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "earlier"}]},
        {"type": "reasoning", "id": "rs_x", "summary": [], "encrypted_content": "from another life"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]},
    ]
    async with running(config(upstream.base_url, other_upstream.base_url, "responses"), tmp_path) as tandem:
        for number in range(2):
            client.ask(f"Fix the typo in file{number}.py")
            assert await go_on(tandem, client) == ["fast"]

    assert fast.statuses == [400, 200, 200]
    assert "from another life" not in json.dumps(fast.asked[-1])


async def test_a_first_line_sets_the_tier_of_each_call_of_its_turn_and_no_longer(tmp_path, upstream, other_upstream, hosts):
    (_fast, deep), client = hosts, Claude()
    async with running(config(upstream.base_url, other_upstream.base_url, "messages"), tmp_path) as tandem:
        deep.plan = ["tool"]
        client.ask(f"tier: deep\n{QUICK}")
        assert await go_on(tandem, client) == ["deep", "deep"]
        client.ask(f"{QUICK} too")
        assert await go_on(tandem, client) == ["fast"]

    assert [json.dumps(asked).count("tier: deep") for asked in deep.asked] == [1, 1]


async def test_a_line_alone_after_an_interrupt_is_answered_by_the_router_and_counts_for_the_next_turn(
    tmp_path, upstream, other_upstream, hosts
):
    (fast, deep), client = hosts, Claude()
    async with running(config(upstream.base_url, other_upstream.base_url, "messages"), tmp_path) as tandem:
        client.ask(QUICK)
        assert await go_on(tandem, client) == ["fast"]
        client.items.append(
            {
                "role": "user",
                "content": [{"type": "text", "text": text} for text in ("[Request interrupted by user]", "tier: deep")],
            }
        )
        reply = await call(tandem.port, client.path, client.body(), client.headers())
        client.items.append({"role": "assistant", "content": reply.json["content"]})
        client.ask(f"{QUICK} too")
        assert await go_on(tandem, client) == ["deep"]

    assert [part["text"] for part in reply.json["content"]] == ["Your next message goes to deep."]
    assert "x-tandem-target" not in reply.headers
    assert (len(fast.asked), len(deep.asked)) == (1, 1)
    assert "[Request interrupted by user]" in json.dumps(deep.asked)


async def test_side_requests_and_subagents_do_not_move_the_persons_session(tmp_path, upstream, other_upstream, hosts):
    (_fast, deep), client = hosts, Claude()
    async with running(config(upstream.base_url, other_upstream.base_url, "messages"), tmp_path) as tandem:
        deep.plan = ["tool", "tool"]
        client.ask(LONG)
        reply = await call(tandem.port, client.path, client.body(), client.headers())
        assert client.take(reply, "ok")
        title = {
            "model": "auto",
            "max_tokens": 9,
            "system": "You are a title generator",
            "messages": [{"role": "user", "content": "x"}],
        }
        agent = {**client.headers(), "x-claude-code-agent-id": "agent-1"}
        small = {"model": "auto", "max_tokens": 9, "messages": [{"role": "user", "content": QUICK}]}
        aside = await call(tandem.port, client.path, title, client.headers())
        await call(tandem.port, client.path, small, {**agent, "x-tandem-tier": "fast"})

        assert aside.headers["x-tandem-tier"] == "fast"
        assert await go_on(tandem, client) == ["deep", "deep"]


async def test_a_warm_cache_keeps_a_short_turn_where_it_is_and_says_so(tmp_path, upstream, other_upstream, hosts):
    (_fast, _deep), client = hosts, Claude()
    text = config(upstream.base_url, other_upstream.base_url, "messages").replace(
        "prefill_tokens_per_second: 60000", "prefill_tokens_per_second: 4000"
    )
    async with running(text, tmp_path) as tandem:
        client.ask(f"{LONG}. Background: " + "word " * 60_000)
        assert await go_on(tandem, client) == ["deep"]
        client.ask("What does the second function return?")
        reply = await call(tandem.port, client.path, client.body(), client.headers())

    assert reply.headers["x-tandem-tier"] == "deep"
    assert "tokens are cached there" in reply.headers["x-tandem-because"]


@pytest.mark.shared
@pytest.mark.parametrize("slow", ["simulated-fast", "simulated-deep"])
async def test_opencodes_title_and_first_ask_in_flight_together_leave_the_turn_where_it_went(tmp_path, shared, slow):
    """Replays the captures: whichever is answered first, the tool loop stays where its ask went."""
    names = ["06-long-1-title", "07-long-2-user-turn"]
    captures = {name: json.loads((shared / "wire" / "opencode" / f"{name}.json").read_text()) for name in names}
    loop = json.loads((shared / "wire" / "opencode" / "08-long-3-tool-followup.json").read_text())

    def sent(capture: dict) -> tuple[str, bytes, dict[str, str]]:
        kept = ("user-agent", "x-session-id", "content-type")
        headers = {name.lower(): value for name, value in capture["headers"].items() if name.lower() in kept}
        return capture["path"], json.dumps({**capture["body"], "model": "auto"}).encode(), headers

    waits = "ttft_seconds: 0.02" if slow == "simulated-deep" else "ttft_seconds: 0.005"
    async with running(SIMULATED.replace(f"options: {{{waits}", "options: {ttft_seconds: 0.2"), tmp_path) as tandem:
        answers = await asyncio.gather(*(call(tandem.port, *sent(captures[name])) for name in names))
        replies = dict(zip(names, answers, strict=True))
        after = await call(tandem.port, *sent(loop))

    tier = replies["07-long-2-user-turn"].headers["x-tandem-tier"]
    assert replies["06-long-1-title"].headers["x-tandem-tier"] == "fast"
    assert after.headers["x-tandem-tier"] == tier
    assert after.headers["x-tandem-because"].endswith(f"into a turn on {tier}")
