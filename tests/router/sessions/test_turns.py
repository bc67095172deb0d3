"""Small requests in the shape of each client's, written by hand; the real captures are tried where they are at hand."""

import json
import subprocess
import sys

import pytest
from msgspec.structs import replace

from router.contract.caller import Caller
from router.contract.words import Dialect, TurnKind
from router.sessions.clients import SIDE_WITH_TOOLS, SYSTEM_INNER_MARKS
from router.sessions.turns import is_follow_up, read_turn
from tests.tools.values import ask, make_view

REMINDER = {"type": "text", "text": "<system-reminder>\nToday is Sunday.\n</system-reminder>"}
TOOL = {"type": "function", "function": {"name": "ls", "parameters": {}}}


def codex(items: list, headers: dict | None = None, **metadata):
    body = {"input": items, "client_metadata": {"x-codex-turn-metadata": json.dumps({"thread_id": "t1", **metadata})}}
    return make_view(body, Dialect.RESPONSES, {"user-agent": "codex_exec/0.166.0", **(headers or {})})


def codex_text(role: str, text: str) -> dict:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def claude(messages: list, system: str = "x-anthropic-billing-header: cc_version=2;", **more):
    headers = {"user-agent": "claude-cli/2.1 (external, cli)", "x-claude-code-session-id": "s1", **more.pop("headers", {})}
    body = {"max_tokens": 9, "messages": messages, "system": [{"type": "text", "text": system}], **more}
    return make_view(body, Dialect.MESSAGES, headers)


def text(words: str) -> dict:
    return {"type": "text", "text": words}


def told(*said: tuple[str, object]) -> list[dict]:
    """Messages, each by its role and content."""
    return [{"role": role, "content": content} for role, content in said]


def chat(*said: tuple[str, object], **headers: str):
    return make_view({"messages": told(*said)}, headers={name.replace("_", "-"): value for name, value in headers.items()})


RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}
ONLY_TEXT = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n"
CASES = [
    (
        "codex, after its environment",
        codex([codex_text("user", "<environment_context>\n x\n</environment_context>"), codex_text("user", "fix it now")]),
        (TurnKind.ASK, "fix it now", "codex:t1"),
    ),
    (
        "codex, a tool result",
        codex(
            [codex_text("user", "do x"), {"type": "function_call_output", "call_id": "c", "output": "ok"}], request_kind="turn"
        ),
        (TurnKind.TOOL_LOOP, "do x", "codex:t1"),
    ),
    (
        "codex, a title",
        codex([codex_text("user", "Generate")], thread_source="thread_title"),
        (TurnKind.SIDE, None, "codex:t1"),
    ),
    ("codex, compaction", codex([codex_text("user", "x")], request_kind="compaction"), (TurnKind.COMPACTION, None, "codex:t1")),
    ("codex, prewarm", codex([codex_text("developer", "x")], request_kind="prewarm"), (TurnKind.PREWARM, None, "codex:t1")),
    (
        "codex, a subagent has a session of its own",
        codex([codex_text("user", "x")], {"thread-id": "t2", "session-id": "t1"}, thread_source="subagent"),
        (TurnKind.SUBAGENT, None, "codex:t2"),
    ),
    (
        "codex, after compaction the turn goes on",
        codex([codex_text("user", "fix it"), codex_text("user", "Another language model started to solve this problem and …")]),
        (TurnKind.TOOL_LOOP, "fix it", "codex:t1"),
    ),
    (
        "claude code, reminders around the words and a system message after them",
        claude(told(("user", [REMINDER, text("fix the typo")]), ("system", "# Environment"))),
        (TurnKind.ASK, "fix the typo", "claude-code:s1"),
    ),
    (
        "claude code, a notification that nobody typed",
        claude(told(("user", "go"), ("assistant", "ok"), ("user", [REMINDER]))),
        (TurnKind.TOOL_LOOP, "go", "claude-code:s1"),
    ),
    (
        "claude code, a tool result with words after it is an ask",
        claude(told(("user", [RESULT, text("stop")]))),
        (TurnKind.ASK, "stop", "claude-code:s1"),
    ),
    (
        "claude code, a subagent",
        claude(told(("user", "list")), "x; cc_is_subagent=true", headers={"x-claude-code-agent-id": "a1"}),
        (TurnKind.SUBAGENT, None, "claude-code:a1"),
    ),
    ("claude code, /compact", claude(told(("user", [text(ONLY_TEXT)]))), (TurnKind.COMPACTION, None, "claude-code:s1")),
    (
        "opencode, a title",
        chat(("system", "You are a title generator. You"), ("user", "x"), x_session_id="o1"),
        (TurnKind.SIDE, None, "opencode:o1"),
    ),
    (
        "opencode, a subagent",
        chat(("user", "list"), x_session_id="o2", x_parent_session_id="o1"),
        (TurnKind.SUBAGENT, None, "opencode:o2"),
    ),
    (
        "cline, inside its task tag",
        chat(
            ("user", [text("<task>\nfix it\n</task>"), text("<environment_details>\nACT MODE\n</environment_details>")]),
            user_agent="Cline/3.82.0",
            x_tandem_session="c",
        ),
        (TurnKind.ASK, "fix it", "x:c"),
    ),
    (
        "aider, before its format rules",
        chat(
            ("system", "Act as an expert software developer.\nTake requests"),
            ("user", "rename f\n\n# *SEARCH/REPLACE block* Rules:\n\nEvery"),
            x_tandem_session="a",
        ),
        (TurnKind.ASK, "rename f", "x:a"),
    ),
    (
        "aider, a commit message",
        chat(
            ("system", "You are an expert software engineer that generates concise, one-line Git commit messages based"),
            ("user", "diff"),
            x_tandem_session="a",
        ),
        (TurnKind.SIDE, None, "x:a"),
    ),
    (
        "anyone, a tool result last",
        make_view(
            {
                "messages": [
                    {"role": "user", "content": "what is here?"},
                    {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "ls"}}]},
                    {"role": "tool", "tool_call_id": "c", "content": "README"},
                ],
                "tools": [TOOL],
            },
            headers={"x-tandem-session": "z"},
        ),
        (TurnKind.TOOL_LOOP, "what is here?", "x:z"),
    ),
]


@pytest.mark.parametrize(("name", "view", "expected"), CASES, ids=[name for name, _, _ in CASES])
def test_kind_words_and_session(name, view, expected):
    turn = read_turn(view)

    assert (turn.kind, turn.person_text, turn.session) == expected


def test_a_client_that_asks_whether_a_model_is_there_takes_no_turn():
    check = claude([{"role": "user", "content": "Hi"}], max_tokens=1, metadata={"user_id": '{"session_id": "s"}'})

    assert read_turn(check).kind is TurnKind.SIDE
    assert read_turn(replace(check, body={**check.body, "max_tokens": 32_000})).kind is TurnKind.ASK


def test_go_on_inherits_what_the_ask_before_it_was_about():
    said = ("user", "rewrite the parser"), ("assistant", "shall I?"), ("user", "yes"), ("assistant", "half"), ("user", "go on")

    turn = read_turn(chat(*said))

    assert (turn.kind, turn.person_text, turn.ask_text) == (TurnKind.FOLLOW_UP, "go on", "rewrite the parser")


@pytest.mark.parametrize("words", ["yes", "Continue.", "go ahead!", "ok, do it", "继续", "mach weiter"])
def test_words_that_only_say_go_on(words):
    assert is_follow_up(words)


@pytest.mark.parametrize(
    "words", ["yes, and rename f to g in every file", "no", "fix it", "continue the parser work in src/parse.py", ""]
)
def test_words_that_ask_for_something(words):
    assert not is_follow_up(words)


def test_callers_with_the_same_words_have_sessions_apart():
    one, two = ask("hello"), replace(ask("hello"), caller=Caller("someone else"))

    assert read_turn(one).session != read_turn(two).session


def test_an_empty_id_is_no_id():
    view = ask("hello", headers={"x-session-id": "", "user-agent": "opencode/1"})

    assert read_turn(view).session.startswith("opencode:~")


async def test_every_capture_agrees_in_kind_and_words(shared, start):
    import asyncio

    from tests.conftest import SIMULATED

    config = SIMULATED.replace('"gpt-*": auto', '"gpt-*": auto, "stub-*": auto, "claude-*": auto')
    tandem = await start(config)
    command = [sys.executable, str(shared / "checks" / "wire.py"), tandem.url, str(shared / "wire")]

    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stdout[-2000:]


def test_a_subagent_that_only_searches_is_known():
    searcher = "x-anthropic-billing-header: cc_is_subagent=true;You are a Claude agent.You are a file search specialist for"
    other = "x-anthropic-billing-header: cc_is_subagent=true;You are an agent for Claude Code"
    asked = [{"role": "user", "content": "Thoroughly search every file of the whole codebase"}]

    searching, working = read_turn(claude(asked, searcher)), read_turn(claude(asked, other))

    assert (searching.kind, searching.only_reads) == (TurnKind.SUBAGENT, True)
    assert (working.kind, working.only_reads) == (TurnKind.SUBAGENT, False)
    assert searching.ask_text == working.ask_text == asked[0]["content"]


@pytest.mark.parametrize(
    ("last", "after"),
    [
        ("This session is being continued from a previous conversation that ran out of context.", "compaction"),
        ("Output token limit hit. Resume directly — no apology, no recap", "a cut answer"),
        ("Your response was cut off because it exceeded the output token limit. Please break your work", "a cut answer"),
        ("<task-notification>done</task-notification>", "a notice"),
        ("fix the tests too", ""),
    ],
)
def test_a_turn_says_what_it_goes_on_after(last, after):
    turn = read_turn(claude(told(("user", "fix the typo"), ("assistant", "ok"), ("user", last))))

    assert (turn.kind is TurnKind.TOOL_LOOP, turn.goes_on_after) == (bool(after), after)


def test_go_on_after_a_compaction_goes_on_however_short_the_conversation_is_now():
    summary, said = text("This session is being continued from a previous conversation."), text("continue")

    assert read_turn(claude(told(("user", [summary, said])))).kind is TurnKind.FOLLOW_UP
    assert read_turn(claude(told(("user", [said])))).kind is TurnKind.ASK


def test_a_result_is_no_interruption_of_its_turn():
    skill = text("Base directory for this skill: /skills/ship\n\nRewrite the whole codebase.")

    turn = read_turn(claude(told(("user", "ship it"), ("user", [RESULT, skill]))))

    assert (turn.kind, turn.person_text, turn.goes_on_after) == (TurnKind.TOOL_LOOP, "ship it", "")


TOOLS = [{"name": "Bash", "input_schema": {"type": "object"}}]


@pytest.mark.parametrize("start", SIDE_WITH_TOOLS)
def test_what_the_client_asks_for_by_itself_is_a_side_request_though_it_brings_tools(start):
    said = [{"role": "user", "content": f"{start} and more"}]

    assert read_turn(claude(said, tools=TOOLS)).kind is TurnKind.SIDE
    assert read_turn(claude(said, "x; cc_is_subagent=true", tools=TOOLS)).kind is TurnKind.SIDE


def test_a_page_that_the_client_has_summed_up_is_a_side_request_and_with_tools_a_persons_message():
    said = [{"role": "user", "content": "\nWeb page content:\n---\nRewrite everything\n---\n\nSum it up"}]

    assert read_turn(claude(said)).kind is TurnKind.SIDE
    assert read_turn(claude(said, tools=TOOLS)).kind is TurnKind.ASK


@pytest.mark.parametrize("mark", [mark for mark, kind in SYSTEM_INNER_MARKS if kind is TurnKind.SIDE])
def test_a_request_of_the_clients_own_is_known_by_its_system_prompt(mark):
    view = claude([{"role": "user", "content": "rewrite everything"}], f"x-anthropic-billing-header: x;{mark}", tools=TOOLS)

    assert read_turn(view).kind is TurnKind.SIDE


def test_a_subagents_compaction_is_a_compaction():
    said = told(("user", ONLY_TEXT))

    assert read_turn(claude(said, "x; cc_is_subagent=true", tools=TOOLS)).kind is TurnKind.COMPACTION


def test_two_runs_of_aider_that_begin_with_the_same_examples_are_two_sessions():
    examples = (
        ("system", "Act as an expert software developer.\nTake requests"),
        ("user", "Change get_factorial() to use math.factorial"),
        ("assistant", "ok"),
        ("user", "I switched to a new code base. Please don't consider the above files or try to edit them."),
        ("assistant", "Ok."),
    )
    one, two = (read_turn(chat(*examples, ("user", words))) for words in ("add f", "drop g"))

    assert one.session != two.session
    assert (one.client, one.history.turns, two.history.turns) == ("aider", 0, 0)
