"""Message threads: only new messages come in, and the whole conversation goes out."""

import json

import pytest

from router.contract.caller import Caller
from router.contract.exchange import Arrival
from router.contract.words import Dialect, Operation
from tests.conftest import SIMULATED
from tests.tools.cases import covering
from tests.tools.exchanges import RecordingSink
from tests.tools.http import call
from tests.tools.running import one_dialect, running
from tests.tools.speech import Speech, ToolCall, speak
from tests.tools.upstream import answer_json

BETA = "message-threads-2026-08-12"
HEADERS = {"anthropic-version": "2026-10-21", "anthropic-beta": BETA}
FAST, DEEP = HEADERS | {"x-tandem-tier": "fast"}, HEADERS | {"x-tandem-tier": "deep"}
TOOL = {"name": "read_file", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}
READ = ToolCall("call_1", "read_file", '{"path": "README.md"}')
DIALECTS = ["chat", "responses", "messages"]


def user(content: object) -> dict:
    return {"role": "user", "content": content}


def create(text: str = "Fix the typo in line 3 of README.md", **more: object) -> dict:
    return {"model": "auto", "max_tokens": 200, "messages": [user(text)], "thread": {"type": "create"}, **more}


def go_on(previous: str, *contents: object, **more: object) -> dict:
    thread = {"type": "continue", "previous_message_id": previous}
    return {"model": "auto", "max_tokens": 200, "messages": [user(content) for content in contents], "thread": thread, **more}


def result(text: str = "teh", call_id: str = "call_1") -> list[dict]:
    return [{"type": "tool_result", "tool_use_id": call_id, "content": text}]


def message(name: str, *content: dict, **more: object) -> dict:
    return {
        "id": name,
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": list(content) or [{"type": "text", "text": f"answer {name}"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 5, "output_tokens": 2},
        **more,
    }


def read_id(reply) -> str:
    if reply.headers["content-type"].startswith("application/json"):
        return reply.json["id"]
    events = [json.loads(line[6:]) for line in reply.body.decode().splitlines() if line.startswith("data: ")]
    assert events[-1]["type"] == "message_stop"
    return events[0]["message"]["id"]


def words_in(dialect: str, body: dict) -> list[str]:
    """The conversation at an upstream: roles, calls and results."""
    if dialect == "responses":
        return [item.get("role", item["type"]) for item in body["input"]]
    if dialect == "chat":
        return ["call" if message.get("tool_calls") else message["role"] for message in body["messages"]]
    return [
        "+".join(block["type"] for block in message["content"]) if isinstance(message["content"], list) else message["role"]
        for message in body["messages"]
    ]


WHOLE_LOOP = {
    "chat": ["system", "user", "call", "tool", "assistant", "user"],
    "responses": ["user", "assistant", "function_call", "function_call_output", "assistant", "user"],
    "messages": ["user", "text+tool_use", "tool_result", "text", "user"],
}


@pytest.fixture
def pair_of(start, upstream, other_upstream):
    """Scripted fast and deep tiers of one dialect, or one each."""

    async def begin(fast: str = "messages", deep: str = "messages"):
        config = one_dialect(fast, upstream.base_url)
        other = one_dialect(deep, other_upstream.base_url)
        deep_line = next(line for line in other.splitlines() if line.startswith("  deep"))
        lines = [deep_line if line.startswith("  deep") else line for line in config.splitlines()]
        return await start("\n".join(lines) + "\n")

    return begin


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streaming"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_thread_is_told_whole_to_its_target_in_every_dialect(start, upstream, dialect, stream):
    tandem = await start(one_dialect(dialect, upstream.base_url))
    speeches = Speech("I read it.", (READ,)), Speech("Fixed."), Speech("You are welcome.")
    upstream.scripts = [speak(dialect, speech) for speech in speeches]
    more = {"stream": True} if stream else {}

    first = await call(tandem.port, "/v1/messages", create(system="Be brief.", tools=[TOOL], **more), FAST)
    second = await call(tandem.port, "/v1/messages", go_on(read_id(first), result(), **more), FAST)
    third = await call(tandem.port, "/v1/messages", go_on(read_id(second), "Thanks", **more), FAST)

    last = upstream.seen[2].json
    assert [reply.status for reply in (first, second, third)] == [200, 200, 200]
    assert words_in(dialect, last) == WHOLE_LOOP[dialect]
    assert "Be brief." in json.dumps(last)
    assert "teh" in json.dumps(last)
    assert json.dumps(last["tools"]).count("read_file") == 1
    assert not any("thread" in seen.json or BETA in seen.headers.get("anthropic-beta", "") for seen in upstream.seen)


@pytest.mark.parametrize(("fast", "deep"), [(one, two) for one in DIALECTS for two in DIALECTS])
async def test_a_thread_hops_between_tiers_of_any_dialect_and_back(pair_of, upstream, other_upstream, fast, deep):
    tandem = await pair_of(fast, deep)
    upstream.scripts = [speak(fast, Speech("I read it.", (READ,))), speak(fast, Speech("Done."))]
    other_upstream.scripts = [speak(deep, Speech("Fixed."))]

    first = await call(tandem.port, "/v1/messages", create(system="Be brief.", tools=[TOOL]), FAST)
    second = await call(tandem.port, "/v1/messages", go_on(read_id(first), result()), DEEP)
    third = await call(tandem.port, "/v1/messages", go_on(read_id(second), "Thanks"), FAST)

    assert (first.status, second.status, third.status) == (200, 200, 200)
    assert words_in(deep, other_upstream.seen[0].json) == WHOLE_LOOP[deep][:-2]
    assert words_in(fast, upstream.seen[1].json) == WHOLE_LOOP[fast]


async def test_a_lone_tool_result_stays_in_the_turn_that_called_the_tool(pair_of, upstream, other_upstream):
    tandem = await pair_of("chat", "chat")
    upstream.scripts = [speak("chat", Speech("", (READ,))), speak("chat", Speech("Fixed."))]
    other_upstream.scripts = [answer_json({"error": {}}, 500)]
    full = HEADERS | {"x-tandem-explain": "full"}

    first = await call(tandem.port, "/v1/messages", create(tools=[TOOL]), full)
    second = await call(tandem.port, "/v1/messages", go_on(read_id(first), result()), full)

    one, two = [json.loads(reply.headers["x-tandem-explain"]) for reply in (first, second)]
    assert (one["tier"], two["tier"]) == ("fast", "fast")
    assert (one["turn_kind"], two["turn_kind"]) == ("ask", "tool_loop")
    assert one["session"] == two["session"]


async def test_a_thread_goes_on_in_a_session_that_only_its_first_request_named(pair_of, upstream):
    tandem = await pair_of()
    upstream.scripts = [answer_json(message("msg_a"))]
    full = {"x-tandem-explain": "full"}

    await call(tandem.port, "/v1/messages", create(), FAST | {"x-tandem-session": "mine"})
    reply = await call(tandem.port, "/v1/messages", go_on("msg_a", "go"), FAST | full)

    assert json.loads(reply.headers["x-tandem-explain"])["session"] == "x:mine"


async def test_many_threads_that_begin_alike_keep_their_tiers(pair_of, upstream, other_upstream):
    tandem = await pair_of()
    upstream.scripts = [answer_json(message(f"msg_{number}")) for number in range(12)] + [answer_json(message("msg_x"))]
    other_upstream.scripts = [answer_json(message("msg_deep")), answer_json(message("msg_y"))]
    for _ in range(12):
        await call(tandem.port, "/v1/messages", create(), FAST)
    await call(tandem.port, "/v1/messages", create(), DEEP)

    replies = [
        await call(tandem.port, "/v1/messages", go_on(previous, result()), HEADERS)
        for previous in ("msg_deep", "msg_0", "msg_11", "msg_5")
    ]

    assert [reply.headers["x-tandem-tier"] for reply in replies] == ["deep", "fast", "fast", "fast"]


async def test_two_requests_may_go_on_from_one_answer(pair_of, upstream):
    tandem = await pair_of()
    upstream.scripts = [answer_json(message(f"msg_{name}")) for name in "abcd"]
    await call(tandem.port, "/v1/messages", create(), FAST)

    replies = [await call(tandem.port, "/v1/messages", go_on("msg_a", words), FAST) for words in ("left", "right")]
    await call(tandem.port, "/v1/messages", go_on("msg_b", "more"), FAST)

    assert [reply.status for reply in replies] == [200, 200]
    said = [message["content"] for message in upstream.seen[3].json["messages"] if message["role"] == "user"]
    assert said == ["Fix the typo in line 3 of README.md", "left", "more"]


async def test_a_thread_may_go_on_under_another_model_name(pair_of, upstream, other_upstream):
    tandem = await pair_of()
    upstream.scripts, other_upstream.scripts = [answer_json(message("msg_a"))], [answer_json(message("msg_b"))]
    await call(tandem.port, "/v1/messages", create(model="fast"), HEADERS)

    reply = await call(tandem.port, "/v1/messages", go_on("msg_a", "go", model="deep"), HEADERS)

    assert (reply.status, reply.headers["x-tandem-tier"]) == (200, "deep")
    assert len(other_upstream.seen[0].json["messages"]) == 3


async def test_an_answer_that_paused_is_gone_on_from_without_a_message(pair_of, upstream):
    tandem = await pair_of()
    upstream.scripts = [answer_json(message("msg_a", stop_reason="pause_turn")), answer_json(message("msg_b"))]
    await call(tandem.port, "/v1/messages", create(), FAST)

    reply = await call(tandem.port, "/v1/messages", go_on("msg_a"), FAST)

    assert reply.status == 200
    assert [message["role"] for message in upstream.seen[1].json["messages"]] == ["user", "assistant"]


async def test_a_lost_thread_is_refused_with_the_code_on_which_clients_send_everything_again(pair_of, upstream):
    tandem = await pair_of()
    upstream.scripts = [answer_json(message("msg_a"))]

    for stream in (False, True):
        reply = await call(tandem.port, "/v1/messages", go_on("msg_gone", "go", stream=stream), FAST)

        assert reply.status == 404
        assert reply.json["type"] == "error"
        assert reply.json["error"]["type"] == "not_found_error"
        assert reply.json["error"]["details"] == {"error_code": "thread_not_found"}
    assert upstream.seen == []


async def test_a_restart_forgets_threads_even_where_responses_are_kept_on_disk(tmp_path):
    config = SIMULATED + "store: {path: responses.db}\n"
    async with running(config, tmp_path) as tandem:
        made = (await call(tandem.port, "/v1/messages", create(store=True), HEADERS)).json
        assert (await call(tandem.port, "/v1/messages", go_on(made["id"], "go"), HEADERS)).status == 200

    async with running(config, tmp_path) as tandem:
        reply = await call(tandem.port, "/v1/messages", go_on(made["id"], "go"), HEADERS)

    assert (reply.status, reply.json["error"]["details"]["error_code"]) == (404, "thread_not_found")


async def test_tokens_are_counted_over_the_whole_thread(start, upstream):
    tandem = await start(one_dialect("chat", upstream.base_url))
    upstream.scripts = [speak("chat", Speech("Fixed."))]
    made = await call(tandem.port, "/v1/messages", create("word " * 2_000), FAST)

    counted = go_on(read_id(made), "go")
    del counted["max_tokens"]
    reply = await call(tandem.port, "/v1/messages/count_tokens", counted, FAST)
    lost = await call(tandem.port, "/v1/messages/count_tokens", go_on("msg_gone", "go"), FAST)

    assert reply.json["input_tokens"] > 1_500
    assert (lost.status, lost.json["error"]["details"]["error_code"]) == (404, "thread_not_found")


async def test_a_host_that_counts_gets_the_whole_thread_and_nothing_is_kept_of_it(pair_of, upstream):
    tandem = await pair_of()
    upstream.scripts = [answer_json(message("msg_a")), answer_json({"input_tokens": 42})]
    await call(tandem.port, "/v1/messages", create(system="Be brief."), FAST)

    reply = await call(tandem.port, "/v1/messages/count_tokens", go_on("msg_a", "go"), FAST)

    assert reply.json == {"input_tokens": 42}
    assert (len(upstream.seen[1].json["messages"]), upstream.seen[1].json["system"]) == (3, "Be brief.")
    assert "thread" not in upstream.seen[1].json


@pytest.mark.parametrize(
    ("thread", "code"),
    [
        ({"type": "continue", "previous_message_id": ""}, None),
        ({"type": "create", "ttl": 5}, "thread_unsupported_request"),
    ],
)
async def test_what_a_thread_cannot_be_is_refused_by_name(simulated, thread, code):
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        reply = await call(simulated.port, path, create(thread=thread), HEADERS)

        assert (reply.status, reply.json["error"]["type"]) == (400, "invalid_request_error")
        assert reply.json["error"]["message"].startswith("thread")
        assert reply.json["error"].get("details") == ({"error_code": code} if code else None)


async def test_what_a_thread_was_created_with_cannot_be_changed_but_may_be_said_again(pair_of, upstream):
    tandem = await pair_of()
    upstream.scripts = [answer_json(message("msg_a"))]
    await call(tandem.port, "/v1/messages", create(system="Be brief.", tools=[TOOL]), FAST)

    same = await call(tandem.port, "/v1/messages", go_on("msg_a", "go", system="Be brief.", tools=[TOOL]), FAST)
    other = await call(tandem.port, "/v1/messages", go_on("msg_a", "go", system="Be rude.", tools=[]), FAST)

    assert (same.status, other.status) == (200, 400)
    assert upstream.seen[1].json["tools"] == [TOOL]
    assert other.json["error"]["details"] == {"error_code": "thread_fingerprint_mismatch"}
    assert other.json["error"]["message"].startswith("system and tools")


async def test_a_lost_thread_that_is_sent_again_whole_goes_on_in_its_session(pair_of, upstream, other_upstream):
    tandem = await pair_of("chat", "chat")
    upstream.scripts = [speak("chat", Speech("I read it.", (READ,)))]
    other_upstream.scripts = [
        speak("chat", Speech("It is fixed.", (ToolCall("call_2", "read_file", "{}"),))),
        speak("chat", Speech("So.")),
    ]
    full = {"x-tandem-explain": "full"}
    other = await call(tandem.port, "/v1/messages", create(tools=[TOOL]), FAST | full)
    first = await call(tandem.port, "/v1/messages", create(tools=[TOOL]), DEEP | full)
    said = [user("Fix the typo in line 3 of README.md"), {"role": "assistant", "content": first.json["content"]}]
    await tandem.house.state.responses.close()

    lost = await call(tandem.port, "/v1/messages", go_on(read_id(first), result()), HEADERS)
    again = create(tools=[TOOL]) | {"messages": [*said, user(result(call_id="call_2"))]}
    replayed = await call(tandem.port, "/v1/messages", again, HEADERS | full)
    went_on = await call(tandem.port, "/v1/messages", go_on(read_id(replayed), "Thanks"), HEADERS | full)

    kept_apart, *sessions = [json.loads(reply.headers["x-tandem-explain"]) for reply in (other, first, replayed, went_on)]
    assert (lost.status, lost.json["error"]["details"]["error_code"]) == (404, "thread_not_found")
    assert {told["session"] for told in sessions} == {sessions[0]["session"]} != {kept_apart["session"]}
    assert replayed.headers["x-tandem-tier"] == "deep"


@pytest.mark.parametrize(("dialect", "field"), covering(DIALECTS, ["temperature", "top_p", "top_k"], strength=1))
async def test_the_new_api_version_has_no_sampling_whoever_serves(start, upstream, dialect, field):
    tandem = await start(one_dialect(dialect, upstream.base_url))
    upstream.scripts = [speak(dialect, Speech("Hi."))]
    body = {"model": "auto", "max_tokens": 9, "messages": [user("hi")], field: 1}

    new, old, none = [
        await call(tandem.port, "/v1/messages", body, headers)
        for headers in ({"anthropic-version": "2026-10-21"}, {"anthropic-version": "2023-06-01"}, {})
    ]

    assert (new.status, new.json["error"]["type"]) == (400, "invalid_request_error")
    assert new.json["error"]["message"].startswith(f"{field}: not permitted")
    assert (old.status, none.status, len(upstream.seen)) == (200, 200, 2)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_new_api_version_has_no_documents_of_the_assistants_whoever_serves(start, upstream, dialect):
    tandem = await start(one_dialect(dialect, upstream.base_url))
    upstream.scripts = [speak(dialect, Speech("Hi."))]
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}
    body = {
        "model": "auto",
        "max_tokens": 9,
        "messages": [user("hi"), {"role": "assistant", "content": [document]}, user("go")],
    }

    reply = await call(tandem.port, "/v1/messages", body, {"anthropic-version": "2026-10-21"})

    assert (reply.status, reply.json["error"]["type"], len(upstream.seen)) == (400, "invalid_request_error", 0)
    assert reply.json["error"]["message"].startswith('messages[1].content[0]: a block of type "document" is not permitted')


async def test_a_bridged_call_names_a_version_that_takes_what_it_sends(start, upstream):
    tandem = await start(one_dialect("messages", upstream.base_url))
    upstream.scripts = [speak("messages", Speech("Hi."))]
    body = {"model": "auto", "messages": [user("hi")], "temperature": 0.5}

    reply = await call(tandem.port, "/v1/chat/completions", body, {"anthropic-version": "2026-10-21"})

    assert reply.status == 200
    assert (upstream.seen[0].json["temperature"], upstream.seen[0].headers["anthropic-version"]) == (0.5, "2023-06-01")


async def test_a_key_may_come_as_a_bearer(start, upstream):
    config = one_dialect("messages", upstream.base_url).replace("window_tokens", "api_key: caller, window_tokens")
    tandem = await start(config)
    upstream.scripts = [answer_json(message("msg_a"))]

    await call(tandem.port, "/v1/messages", create(), HEADERS | {"authorization": "Bearer sk-ant-api03-mine"})
    await call(tandem.port, "/v1/messages", go_on("msg_a", "go"), HEADERS | {"authorization": "Bearer sk-ant-api03-mine"})

    assert [seen.headers["x-api-key"] for seen in upstream.seen] == ["sk-ant-api03-mine"] * 2


async def test_callers_never_see_one_anothers_threads(pair_of, upstream):
    tandem = await pair_of()
    upstream.scripts = [answer_json(message("msg_a"))]

    async def ask(caller: str, body: dict) -> int:
        taken = RecordingSink()
        raw = json.dumps(body).encode()
        arrival = Arrival(f"req_{caller}", Dialect.MESSAGES, Operation.CREATE, FAST, raw, Caller(caller))
        await tandem.house.serve(tandem.house.begin(arrival), taken)
        return taken.status

    assert await ask("ann", create("secret")) == 200
    assert await ask("bob", go_on("msg_a", "go")) == 404
    assert await ask("ann", go_on("msg_a", "go")) == 200


async def test_a_thread_is_known_again_after_a_restart(tmp_path, upstream):
    config = one_dialect("chat", upstream.base_url)
    upstream.scripts = [speak("chat", Speech("Hello."))]
    full = HEADERS | {"x-tandem-explain": "full"}
    sessions = []
    said = [user("Fix the typo in line 3 of README.md")]
    for words in ("now the next", "and the last"):
        async with running(config, tmp_path) as tandem:
            reply = await call(tandem.port, "/v1/messages", create() | {"messages": said}, full)
            sessions.append(json.loads(reply.headers["x-tandem-explain"])["session"])
            said = [*said, {"role": "assistant", "content": reply.json["content"]}, user(words)]

    assert sessions[0] == sessions[1]
