"""Real clients plan, have the plan accepted and edit: deep plans, fast edits, and the ledger says so."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.tools.clients import claude_environment, command_of, folder_of_command, make_scratch, run_client
from tests.tools.running import Running, read_entries
from tests.tools.speech import Speech, ToolCall, speak
from tests.tools.terminal import Terminal, run_in_terminal
from tests.tools.upstream import Seen, Wire
from tests.tools.waiting import until

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

ASK = "Plan how to fix the typo in calc.py"
PLANNING, EDITS = ("deep", "planning on deep"), ("fast", "plan accepted; edits on fast until something fails")
_AT_REST, _MOST_READS = 10, 60
"""Reads of a tenth of a second: without output in a row, and in all, since some screens never rest."""
_TURNS = ("ask", "follow_up", "tool_loop")


class Desk:
    """Both tiers' model: answers each request of the session with the next step, and side requests with a title."""

    def __init__(self, dialect: str, *steps: Speech, has_tools: bool = True) -> None:
        self.dialect, self.steps, self.has_tools, self.given = dialect, list(steps), has_tools, 0

    async def __call__(self, wire: Wire, seen: Seen) -> None:
        body, number = seen.json, self.given
        is_aside = (self.has_tools and not body.get("tools")) or "format" in (body.get("text") or {})
        speech = Speech('{"title": "A title"}') if is_aside else self.steps[min(number, len(self.steps) - 1)]
        self.given += not is_aside
        send = wire.chunk
        # Claude Code joins answers with equal ids.
        wire.chunk = lambda data: send(data.replace(b"msg_x", b"msg_x%d" % number).replace(b"msg_1", b"msg_1%d" % number))
        await speak(self.dialect, speech)(wire, seen)


def calls(number: int, name: str, **arguments: object) -> Speech:
    return Speech(calls=(ToolCall(f"call_{number}", name, json.dumps(arguments)),))


@pytest.fixture
async def serve(start, upstream, other_upstream) -> Callable:
    async def begin(desk: Desk) -> Running:
        upstream.scripts = other_upstream.scripts = [desk]
        adapter = "anthropic_http" if desk.dialect == "messages" else "openai_http"

        def target(name: str, url: str) -> str:
            url = url.removesuffix("/v1") if desk.dialect == "messages" else url
            accepts = "accepts: [text, tools, images, files, json_schema, custom_tools, reasoning], window_tokens: 400000"
            known = f'name: {name}, adapter: {adapter}, dialect: {desk.dialect}, base_url: "{url}", model: {name}'
            return f"{{targets: [{{{known}, {accepts}}}]}}"

        tiers = f"tiers: {{fast: {target('quick', upstream.base_url)}, deep: {target('sage', other_upstream.base_url)}}}"
        return await start(f'ledger: {{path: test.db}}\nmodels: {{"*": auto}}\ncombine: {{plan: on}}\n{tiers}\n')

    return begin


async def turns(tandem: Running, count: int) -> list[tuple[str, str | None]]:
    """Tier and plan of each request that is not one of the client's own."""

    def rows() -> list[dict]:
        return [row for row in read_entries(tandem.loaded.ledger_path) if row["turn_kind"] in _TURNS]

    await until(lambda: len(rows()) >= count)
    return [(row["tier"], row["combined"]) for row in rows()]


class Typist:
    """Drives a client's terminal by what the client sends: what it shows differs between versions and is drawn in pieces."""

    def __init__(self, terminal: Terminal, desk: Desk) -> None:
        self.terminal, self.desk = terminal, desk

    async def see(self, letters: str) -> None:
        await asyncio.to_thread(self.terminal.wait_for, lambda lines: letters in "".join(lines).replace(" ", ""))

    async def press(self, *keys: bytes) -> None:
        """Press each key once the screen is at rest: keys that come together are taken for a paste."""
        for each in keys:
            self.terminal.type(each)
            await asyncio.to_thread(self._rest)

    async def press_until(self, given: int, key: bytes = b"\r") -> None:
        """Press a key again and again until the client has sent so many requests."""
        while self.desk.given < given:
            await self.press(key)

    def _rest(self) -> None:
        quiet = 0
        for _ in range(_MOST_READS):
            before = len(self.terminal.frames)
            self.terminal.read(0.1)
            quiet = quiet + 1 if len(self.terminal.frames) == before else 0
            if quiet == _AT_REST:
                return


@contextlib.contextmanager
def typing(command: list[str], scratch: Path, desk: Desk, environment: dict[str, str]) -> Iterator[Typist]:
    known = {"HOME": str(scratch / "home"), "LANG": "C.UTF-8", **environment}
    with run_in_terminal(command, scratch / "repo", columns=140, rows=50, environment=known) as terminal:
        yield Typist(terminal, desk)


async def test_claude_code_plans_on_deep_and_edits_on_fast(serve, tmp_path):
    scratch = make_scratch(tmp_path)
    file = str(scratch / "repo" / "calc.py")
    desk = Desk(
        "messages",
        calls(0, "Read", file_path=file),
        calls(1, "ExitPlanMode", plan="1. Replace retrun"),
        calls(2, "Edit", file_path=file, old_string="retrun", new_string="return"),
        Speech("Done."),
    )
    tandem = await serve(desk)
    trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    settings = {"hasCompletedOnboarding": True, "theme": "dark", "projects": {str(scratch / "repo"): trusted}}
    (scratch / "home" / ".claude.json").write_text(json.dumps(settings))
    environment = {**claude_environment(tandem.url), "ANTHROPIC_AUTH_TOKEN": "any", "ANTHROPIC_API_KEY": "", "IS_SANDBOX": "1"}

    with typing([command_of("claude"), "--permission-mode", "plan"], scratch, desk, environment) as typist:
        await typist.see("planmode")
        await typist.press(ASK.encode())
        await typist.press_until(4)
        seen = await turns(tandem, 4)

    assert seen == [PLANNING, PLANNING, EDITS, EDITS]
    assert "return a / b" in (scratch / "repo" / "calc.py").read_text()


async def test_codex_plans_on_deep_and_edits_on_fast(serve, tmp_path):
    scratch = make_scratch(tmp_path)
    desk = Desk(
        "responses",
        calls(0, "exec_command", cmd="cat calc.py"),
        Speech("<proposed_plan>\n# Fix it\n- Replace retrun\n</proposed_plan>"),
        calls(1, "exec_command", cmd="sed -i s/retrun/return/ calc.py"),
        Speech("Done with it."),
    )
    tandem = await serve(desk)
    (scratch / "home" / ".codex").mkdir()
    provider = f'name = "tandem"\nbase_url = "{tandem.url}/v1"\nenv_key = "ANY_KEY"\nwire_api = "responses"\n'
    (scratch / "home" / ".codex" / "config.toml").write_text(
        'model_provider = "tandem"\nmodel = "auto"\napproval_policy = "never"\nsandbox_mode = "danger-full-access"\n'
        f'check_for_update_on_startup = false\n[model_providers.tandem]\n{provider}[projects."{scratch / "repo"}"]\n'
        'trust_level = "trusted"\n'
    )

    with typing([command_of("codex"), "--no-daemon"], scratch, desk, {"ANY_KEY": "any"}) as typist:
        await typist.see("AskCodex")
        await typist.press(b"\x1b", b"/plan", b"\r", ASK.encode())
        await typist.press_until(4)
        seen = await turns(tandem, 4)

    assert seen == [PLANNING, PLANNING, EDITS, EDITS]
    assert "return a / b" in (scratch / "repo" / "calc.py").read_text()


async def test_opencode_plans_on_deep_and_edits_on_fast(serve, tmp_path):
    scratch = make_scratch(tmp_path)
    file = str(scratch / "repo" / "calc.py")
    desk = Desk(
        "chat",
        calls(0, "read", filePath=file),
        Speech("Here is the plan: replace retrun."),
        calls(1, "edit", filePath=file, oldString="retrun", newString="return"),
        Speech("Done."),
    )
    tandem = await serve(desk)
    options = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{tandem.url}/v1", "apiKey": "any"}}
    provider = {"router": {**options, "models": {"auto": {}, "fast": {}}}}
    settings = {"model": "router/auto", "small_model": "router/fast", "provider": provider, "permission": "allow"}
    folder = scratch / "home" / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.json").write_text(json.dumps(settings))
    environment = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}

    for more in (["--agent", "plan", ASK], ["--continue", "--agent", "build", "Do it"]):
        await run_client([command_of("opencode"), "run", *more], scratch, environment)
    last = Speech("Renamed.")
    desk.steps.append(last)
    await run_client(
        [command_of("opencode"), "run", "--continue", "--agent", "build", "Rename divide to div"], scratch, environment
    )

    *planned, (_, combined) = await turns(tandem, 5)
    assert planned == [PLANNING, PLANNING, EDITS, EDITS]
    assert combined is None


async def test_aider_plans_on_deep_and_edits_on_fast(serve, tmp_path):
    scratch = make_scratch(tmp_path)
    whole = "calc.py\n```\ndef divide(a, b):\n    return a / b\n```\n"
    desk = Desk("chat", Speech("Replace retrun by return."), Speech(whole), has_tools=False)
    tandem = await serve(desk)
    environment = {"OPENAI_API_KEY": "any", "OPENAI_API_BASE": f"{tandem.url}/v1"}
    quiet = ["--no-check-update", "--analytics-disable", "--no-show-model-warnings", "--no-gitignore", "--no-auto-commits"]
    aider = [str(folder_of_command("aider") / "aider"), "--architect", "--editor-edit-format", "editor-whole"]

    await run_client(
        [*aider, "--model", "openai/auto", *quiet, "--yes-always", "--message", ASK, "calc.py"], scratch, environment
    )

    rows = await tandem.entries(2)
    assert [(row["tier"], row["combined"]) for row in rows[:2]] == [PLANNING, EDITS]
