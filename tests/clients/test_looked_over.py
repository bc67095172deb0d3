"""Real agents whose work deep looks over: its objection is on the screen, and "fix it" goes to deep. The models are scripted."""

import json

import pytest

from router.contract.words import PERSONS_KINDS
from tests.clients.test_python_sdks import DIALECTS, WAYS, sdk_caller
from tests.tools.clients import CODEX_KEY, claude, claude_environment, codex, make_scratch, run_client
from tests.tools.looks import SAID, deep_says, edited, two_tiers
from tests.tools.running import read_entries
from tests.tools.speech import Speech, ToolCall, speak
from tests.tools.upstream import Seen, Wire
from tests.tools.waiting import until

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]
EDIT = "sed -i s/retrun/return/ calc.py"
COMMANDS = {"Bash": {"command": EDIT, "description": "fix the typo"}, "exec_command": {"cmd": EDIT}, "shell": {"command": EDIT}}
"""By the name of a client's tool: how it runs a command."""
BREAKS = "a division by zero is not caught"
OBJECTION = {"fine": False, "objections": [{"file": "calc.py", "line": 2, "breaks": BREAKS, "sure": "certain"}]}
QUESTION = "Look it over before the person builds on it"
FIXED = "Deep caught the division by zero."


async def fast(wire: Wire, seen: Seen) -> None:
    """Edits with the client's own tool, then says so. Requests without tools are for a title."""
    names = {tool["function"]["name"] for tool in seen.json.get("tools", ())}
    if not names:
        speech = Speech("a title")
    elif any(message["role"] == "tool" for message in seen.json["messages"]):
        speech = Speech(SAID)
    else:
        name = next(name for name in COMMANDS if name in names)
        speech = Speech(calls=(ToolCall("call_1", name, json.dumps(COMMANDS[name])),))
    await speak("chat", speech)(wire, seen)


async def deep(wire: Wire, seen: Seen) -> None:
    speech = Speech(json.dumps(OBJECTION)) if QUESTION in seen.body.decode() else Speech(FIXED)
    await speak("chat", speech)(wire, seen)


def commands_of(client: str, url: str) -> tuple[list[str], list[str], dict[str, str]]:
    """The ask, the next turn of its session, and the environment of both."""
    if client == "claude":
        allowed = ("--allowedTools", "Bash", "--")
        again = claude("--continue", *allowed, prompt="fix it")
        return claude(*allowed), again, {**claude_environment(url), "IS_SANDBOX": "1"}
    may = "--dangerously-bypass-approvals-and-sandbox"
    again = codex(url, may, "resume", "--last", prompt="fix it")
    return codex(url, may), again, CODEX_KEY


@pytest.mark.parametrize("client", ["claude", "codex"])
async def test_an_objection_is_on_the_screen_and_fix_it_goes_to_deep(start, upstream, other_upstream, tmp_path, client):
    upstream.scripts, other_upstream.scripts = [fast], [deep]
    tandem = await start(two_tiers("chat", upstream.base_url, other_upstream.base_url, "{look: always}"))
    scratch = make_scratch(tmp_path)
    ask, again, environment = commands_of(client, tandem.url)

    first = await run_client(ask, scratch, environment)
    second = await run_client(again, scratch, environment)

    assert "deep looked this over" in first, first[-2_000:]
    assert BREAKS in first
    assert FIXED in second, second[-2_000:]
    await until(lambda: any(row["tier"] == "deep" for row in read_entries(tandem.loaded.ledger_path)))
    rows = [row for row in await tandem.entries() if row["turn_kind"] in PERSONS_KINDS]
    assert [row["combined"] for row in rows if row["combined"]] == ["deep looked it over: 1 objection"]
    assert (rows[-1]["tier"], rows[-1]["because"].partition(";")[0]) == ("deep", "you act on what deep objected to")
    assert BREAKS in other_upstream.seen[-1].body.decode()


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("caller", DIALECTS)
@WAYS
async def test_an_sdk_reads_an_answer_with_an_objection_without_complaint(
    start, upstream, other_upstream, caller, target, streams
):
    tandem = await start(two_tiers(target, upstream.base_url, other_upstream.base_url, "{look: always}"))
    upstream.scripts, other_upstream.scripts = [speak(target, Speech(SAID))], [deep_says(target)["objections"]]

    async with sdk_caller(caller, tandem.url, streams=streams) as sdk:
        sdk.history += edited(caller)["input" if caller == "responses" else "messages"]
        heard = await sdk.ask()

    assert heard.text.startswith(SAID)
    assert "total is None" in heard.text
    assert heard.tokens == (90, 12)
