"""Real clients against upstreams that speak one dialect only: a second Tandem with simulated tiers, or a script."""

import asyncio
import json

import pytest

from router.cli.setup.facts import ask_codex
from router.sessions.clients.codex import STORED_MODELS, choose_entries
from tests.conftest import SIMULATED
from tests.tools.clients import CODEX_KEY, claude, claude_environment, codex, command_of, installed, make_scratch, run_client
from tests.tools.http import call
from tests.tools.running import Running, one_dialect
from tests.tools.speech import Speech, ToolCall, speak

DIALECTS = ["chat", "responses", "messages"]
LAST_WORDS = "simulated fast tier: no model was asked"
FIXED = "def divide(a, b):\n    return a / b\n"
PATCH = """*** Begin Patch
*** Update File: calc.py
@@
 def divide(a, b):
-    retrun a / b
+    return a / b
*** End Patch
"""
NODE_SCRIPT = """
import OpenAI from 'openai';
const client = new OpenAI();
const schema = { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] };
const tool = { name: 'read_file', description: 'Reads a file.', parameters: schema };

const messages = [{ role: 'user', content: 'Fix the typo in calc.py' }];
const tools = [{ type: 'function', function: tool }];
const asked = await client.chat.completions.create({ model: 'auto', messages, tools });
const call = asked.choices[0].message.tool_calls[0];
messages.push(asked.choices[0].message, { role: 'tool', tool_call_id: call.id, content: 'retrun a / b' });
const chat = client.chat.completions.stream({ model: 'auto', messages, tools });
console.log('chat', call.function.name, await chat.finalContent());

const flat = [{ type: 'function', strict: false, ...tool }];
const input = [{ role: 'user', content: 'Fix the typo in calc.py' }];
const first = await client.responses.stream({ model: 'auto', input, tools: flat }).finalResponse();
const made = first.output.find((item) => item.type === 'function_call');
input.push(...first.output, { type: 'function_call_output', call_id: made.call_id, output: 'retrun a / b' });
const last = await client.responses.create({ model: 'auto', input, tools: flat });
console.log('responses', made.name, last.output_text);
"""

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]


@pytest.fixture
async def far(start, tmp_path) -> Running:
    """The upstream: it answers any dialect, and its ledger says which it was asked in."""
    (tmp_path / "far").mkdir()
    return await start(SIMULATED.replace('"gpt-*": auto', '"*": simulated-fast'), tmp_path / "far")


async def heard(far: Running, count: int) -> list[tuple[str, str, str]]:
    return [(entry["dialect"], entry["turn_kind"], entry["outcome"]) for entry in await far.entries(count)]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_codex_calls_a_tool_of_its_own_whatever_its_upstream_speaks(start, far, tmp_path, dialect):
    tandem = await start(one_dialect(dialect, f"{far.url}/v1"))

    said = await run_client(codex(tandem.url), make_scratch(tmp_path), CODEX_KEY)

    assert LAST_WORDS in said
    assert await heard(far, 2) == [(dialect, "ask", "SERVED"), (dialect, "tool_loop", "SERVED")]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_claude_code_calls_a_tool_of_its_own_whatever_its_upstream_speaks(start, far, tmp_path, dialect):
    tandem = await start(one_dialect(dialect, f"{far.url}/v1"))

    said = await run_client(claude(), make_scratch(tmp_path), claude_environment(tandem.url))

    assert LAST_WORDS in said
    assert await heard(far, 2) == [(dialect, "ask", "SERVED"), (dialect, "tool_loop", "SERVED")]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_node_sdk_calls_tools_over_chat_and_responses_whatever_its_upstream_speaks(start, far, tmp_path, dialect):
    tandem = await start(one_dialect(dialect, f"{far.url}/v1"))
    scratch = make_scratch(tmp_path)
    (scratch / "node_modules").symlink_to(installed("openai"))
    (scratch / "run.mjs").write_text(NODE_SCRIPT)
    environment = {"OPENAI_BASE_URL": f"{tandem.url}/v1", "OPENAI_API_KEY": "any"}

    said = await run_client(["node", str(scratch / "run.mjs")], scratch, environment)

    assert [line.split()[:2] for line in said.splitlines()] == [["chat", "read_file"], ["responses", "read_file"]], said
    assert said.count(LAST_WORDS) == 2
    assert [entry[0] for entry in await heard(far, 4)] == [dialect] * 4


@pytest.mark.parametrize("arguments", [json.dumps({"input": PATCH}), PATCH], ids=["as asked", "the patch itself"])
async def test_codex_edits_a_file_with_its_free_form_tool_through_a_chat_target(start, upstream, tmp_path, arguments):
    tandem = await start(one_dialect("chat", upstream.base_url))
    upstream.scripts = [
        speak("chat", Speech("I fix it.", (ToolCall("call_1", "apply_patch", arguments),))),
        speak("chat", Speech("The typo is gone.")),
    ]
    scratch = make_scratch(tmp_path)

    # A name that Codex has metadata for: only then does it offer the tool. The scratch repository is all that can be harmed.
    command = codex(tandem.url, "--dangerously-bypass-approvals-and-sandbox", model="gpt-5.5")
    said = await run_client(command, scratch, CODEX_KEY)

    assert (scratch / "repo" / "calc.py").read_text() == FIXED, said
    assert "The typo is gone." in said
    first, second = (seen.json for seen in upstream.seen)
    (tool,) = [tool["function"] for tool in first["tools"] if tool["function"]["name"] == "apply_patch"]
    assert tool["parameters"]["required"] == ["input"]
    assert second["messages"][-1]["role"] == "tool"
    assert "Success" in second["messages"][-1]["content"]
    (call,) = second["messages"][-2]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"input": PATCH}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_codex_starts_with_the_routers_catalogue_and_offers_patches_only_where_they_arrive(
    start, upstream, tmp_path, dialect, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    stored = tmp_path / "tandem" / STORED_MODELS
    stored.parent.mkdir(parents=True)
    own = await asyncio.to_thread(ask_codex, command_of("codex"))
    stored.write_text(json.dumps(choose_entries(own, {"auto": "some-model"})))
    tandem = await start(one_dialect(dialect, upstream.base_url))
    upstream.scripts = [speak(dialect, Speech("Nothing to do."))]
    catalogue = tmp_path / "catalogue.json"
    catalogue.write_bytes((await call(tandem.port, "/v1/models?client_version=1")).body)

    said = await run_client(codex(tandem.url, "-c", f'model_catalog_json="{catalogue}"'), make_scratch(tmp_path), CODEX_KEY)

    assert "Nothing to do." in said
    assert len(json.dumps(upstream.seen[0].json)) > 30_000  # with Codex's own prompt
    offers = "apply_patch" in json.dumps(upstream.seen[0].json["tools"])
    # These targets do not accept free-form tools: a bridge makes functions of them, their own dialect would not.
    assert offers == (dialect != "responses")


async def test_claude_code_edits_a_file_through_a_responses_target(start, upstream, tmp_path):
    tandem = await start(one_dialect("responses", upstream.base_url))
    scratch = make_scratch(tmp_path)
    path = str(scratch / "repo" / "calc.py")
    edit = {"file_path": path, "old_string": "retrun", "new_string": "return", "replace_all": False}
    upstream.scripts = [
        speak("responses", Speech("I look at it.", (ToolCall("call_1", "Read", json.dumps({"file_path": path})),))),
        speak("responses", Speech("I fix it.", (ToolCall("call_2", "Edit", json.dumps(edit)),), thinking="A typo.")),
        speak("responses", Speech("The typo is gone.")),
    ]

    said = await run_client(claude("--permission-mode", "acceptEdits"), scratch, claude_environment(tandem.url))

    assert (scratch / "repo" / "calc.py").read_text() == FIXED, said
    assert "The typo is gone." in said
    assert len(upstream.seen) == 3
    kinds = [item["type"] for item in upstream.seen[-1].json["input"] if item["type"] != "message"]
    assert kinds == ["function_call", "function_call_output", "reasoning", "function_call", "function_call_output"]
