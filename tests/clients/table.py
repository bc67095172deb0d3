"""`make table`: every real client against upstreams that speak one dialect each, and the page that says how it went.

The drivers and the recording upstream stand beside the checkout, in ../shared: without them nothing is tried. A cell is green
when the client printed the upstream's marker, only the one dialect's path was called, and, for a client that brings tools, the
upstream saw what a tool call gave back.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path

from router.telemetry import events
from tests.clients import driver
from tests.tools.http import call
from tests.tools.ports import keepable_port
from tests.tools.running import Running, one_dialect, running

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "decide" / "translation.md"
_BLOCK = re.compile(r"(?<=<!-- clients -->\n).*?(?=<!-- end -->)", re.DOTALL)
CACHE = Path(
    os.environ.get("CLIENT_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "router-clients"
)
MARKER = "TANDEM-TABLE-OK"
CANNOT_RUN = 77
PATHS = {"chat": "/chat/completions", "responses": "/responses", "messages": "/messages"}


@dataclass(frozen=True)
class Client:
    """One row: a driver, what the client speaks, and how it is told so."""

    name: str
    driver: str
    package: str
    speaks: str
    tools: str = "functions"
    environment: tuple[tuple[str, str], ...] = ()
    has_own_driver: bool = False
    """Whether this project brings the driver."""

    def command(self, shared: Path) -> list[str]:
        if self.has_own_driver:
            return [sys.executable, "-m", "tests.clients.driver", self.driver]
        return [str(shared / "clients" / f"{self.driver}.sh")]

    @property
    def must_return_a_result(self) -> bool:
        return self.tools == "functions"


CLIENTS = {
    "codex-http": Client("Codex CLI", "codex-http", "@openai/codex", "responses"),
    "claude": Client("Claude Code", "claude", "@anthropic-ai/claude-code", "messages"),
    **{
        f"opencode-{api}": Client("opencode", "opencode", "opencode-ai", api, environment=(("OPENCODE_API", api),))
        for api in PATHS
    },
    **{f"copilot-{api}": Client("Copilot CLI", f"copilot-{api}", "", api, has_own_driver=True) for api in PATHS},
    "codex-sdk": Client("Codex SDK", "codex-sdk", "", "responses", has_own_driver=True),
    "claude-agent-sdk": Client("Claude Agent SDK", "claude-agent-sdk", "", "messages", has_own_driver=True),
    "qwen": Client("qwen-code", "qwen", "@qwen-code/qwen-code", "chat"),
    "continue": Client("Continue CLI", "continue", "@continuedev/cli", "chat"),
    "cline": Client("Cline CLI", "cline", "cline", "chat", tools="XML in text"),
    "aider": Client("aider", "aider", "aider-chat", "chat", tools="none"),
    "llm": Client("llm", "llm", "llm", "chat", tools="none"),
    "openai-python": Client("OpenAI Python SDK", "openai-python", "openai", "chat, responses", tools="none"),
    "openai-node": Client("OpenAI Node SDK", "openai-node", "openai", "chat, responses", tools="none"),
    "langchain": Client("LangChain", "langchain", "langchain-openai", "chat, responses", tools="none"),
}


@dataclass(frozen=True)
class Cell:
    """How one client fared with one upstream. No fault: green."""

    fault: str = ""
    has_results: bool = False
    dropped: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        return "**failed**" if self.fault else "tool call, answer" if self.has_results else "answer"


def say(text: str) -> None:
    print(text, file=sys.__stderr__, flush=True)


def holds_a_result(dialect: str, body: dict) -> bool:
    """Whether a request tells its upstream what a tool call gave back."""
    if dialect == "chat":
        return any(message.get("role") == "tool" for message in body.get("messages") or [])
    if dialect == "responses":
        return any(str(item.get("type")).endswith("_output") for item in body.get("input") or [] if isinstance(item, dict))
    contents = [message.get("content") for message in body.get("messages") or []]
    return any(block.get("type") == "tool_result" for content in contents if isinstance(content, list) for block in content)


class Recorder:
    """The recording upstream, told to speak one dialect and to answer 404 for the others."""

    def __init__(self, shared: Path, dialect: str, folder: Path) -> None:
        self._log = folder / "seen.jsonl"
        self._dialect = dialect
        self._port = keepable_port()
        command = [
            stub_python(shared),
            "stub_server.py",
            "--port",
            str(self._port),
            "--log",
            str(self._log),
            "--marker",
            MARKER,
        ]
        self._process = subprocess.Popen(command, cwd=shared / "stub", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def begin(self) -> None:
        """Wait until it listens, then take the other dialects from it."""
        faults = [
            {"kind": "status", "status": 404, "match": path, "times": -1}
            for dialect, path in PATHS.items()
            if dialect != self._dialect
        ]
        deadline = time.monotonic() + 30
        while True:
            try:
                return self.control({"faults": faults})
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def control(self, settings: dict) -> None:
        request = urllib.request.Request(
            f"{self.url}/_stub/control", json.dumps(settings).encode(), {"content-type": "application/json"}
        )
        urllib.request.urlopen(request, timeout=30).read()

    def seen(self, label: str) -> list[dict]:
        """The create calls of one cell."""
        lines = map(json.loads, self._log.read_text().splitlines() if self._log.exists() else ())
        return [line for line in lines if line["label"] == label and line["kind"] == "request" and line["method"] == "POST"]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)


def stub_python(shared: Path) -> str:
    """The interpreter that has what the recording upstream needs, made once, beside the clients."""
    folder = CACHE / "venv-stub"
    if not (folder / ".ok").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        requirements = str(shared / "stub" / "requirements.txt")
        subprocess.run([str(folder / "bin" / "pip"), "install", "--quiet", "-r", requirements], check=True)
        (folder / ".ok").touch()
    return str(folder / "bin" / "python")


@contextlib.asynccontextmanager
async def one_upstream(shared: Path, dialect: str, folder: Path) -> AsyncIterator[tuple[Recorder, Running]]:
    """An upstream that speaks only this, and a Tandem whose tiers both lead there."""
    recorder = Recorder(shared, dialect, folder)
    try:
        await asyncio.to_thread(recorder.begin)
        async with running(one_dialect(dialect, f"{recorder.url}/v1"), folder) as tandem:
            yield recorder, tandem
    finally:
        recorder.stop()


async def try_client(shared: Path, client: Client, dialect: str, recorder: Recorder, tandem: Running, seconds: int) -> Cell:
    """One cell: the client's own run of one prompt, held against what the upstream saw."""
    label = f"{client.driver}-{client.speaks}"
    await asyncio.to_thread(recorder.control, {"label": label})
    before = len(await tandem.entries(0))
    environment = {**os.environ, **dict(client.environment), "CLIENT_TIMEOUT": str(seconds), "CLIENT_CACHE": str(CACHE)}
    process = await asyncio.create_subprocess_exec(
        *client.command(shared),
        f"{tandem.url}/v1",
        MARKER,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        # Installing comes on top of the run, the first time.
        out, _ = await asyncio.wait_for(process.communicate(), seconds + 300)
    except TimeoutError:
        process.kill()
        await process.wait()
        return Cell("it did not end in time")
    if process.returncode:
        words = (
            "cannot be installed here" if process.returncode == CANNOT_RUN else out.decode("utf-8", "replace").strip()[-300:]
        )
        return Cell(words or "no marker")
    seen = recorder.seen(label)
    paths = {line["path"].partition("?")[0].removeprefix("/v1") for line in seen}
    if paths != {PATHS[dialect]}:
        return Cell(f"paths called: {', '.join(sorted(paths)) or 'none'}")
    has_results = any(holds_a_result(dialect, line["body"]) for line in seen)
    if client.must_return_a_result and not has_results:
        return Cell("no request carried a tool's result")
    return Cell("", has_results, await find_dropped(tandem, before, len(seen)))


async def find_dropped(tandem: Running, before: int, count: int) -> tuple[str, ...]:
    """What the cell's requests lost on the way, by the router's own word."""
    found: dict[str, None] = {}
    for entry in (await tandem.entries(before + count))[before:]:
        reply = await call(tandem.port, f"/tandem/decisions/{entry['id']}")
        # Where in the conversation a thing stood differs from run to run; that it stood there does not.
        found.update(dict.fromkeys(re.sub(r"\[\d+\]", "[]", name) for name in reply.json.get("dropped") or []))
    return tuple(found)


def versions(shared: Path, client: Client) -> str:
    """The version that the driver pins."""
    if client.has_own_driver:
        return driver.version(client.driver)
    text = (shared / "clients" / f"{client.driver}.sh").read_text()
    pin = re.search(rf"(?<![\w./@-]){re.escape(client.package)}(?:@|==)([\w.]+)", text)
    return pin[1] if pin else "unknown"


def write_tables(shared: Path, cells: dict[tuple[str, str], Cell]) -> str:
    """How each client fared, and what its requests lost, from a whole run."""
    rows: dict[str, list[str]] = {}
    for key, client in CLIENTS.items():
        rows.setdefault(f"{client.name} {versions(shared, client)}", []).append(key)
    lines = ["", "| client | speaks | result |", "| --- | --- | --- |"]
    losses: dict[str, list[str]] = {}
    for name, keys in rows.items():
        seen = {(key, dialect): cells[key, dialect] for key in keys for dialect in PATHS}
        words = {cell.word for cell in seen.values()}
        each = "; ".join(f"{CLIENTS[key].speaks} to {dialect}: {cell.word}" for (key, dialect), cell in seen.items())
        lines.append(
            f"| {name} | {', '.join(CLIENTS[key].speaks for key in keys)} | {each if len(words) > 1 else words.pop()} |"
        )
        if dropped := dict.fromkeys(loss for cell in seen.values() for loss in cell.dropped):
            losses.setdefault(", ".join(f"`{loss}`" for loss in dropped), []).append(CLIENTS[keys[0]].name)
    lines += ["", "What was dropped in these runs, where client and target spoke different APIs:", ""]
    lines += [f"- {', '.join(names)}: {dropped}" for dropped, names in losses.items()]
    return "\n".join([*lines, "", ""])


async def fill(shared: Path, clients: Iterable[str], dialects: Iterable[str], seconds: int) -> dict[tuple[str, str], Cell]:
    """Every cell in turn: real clients share this machine's cores badly."""
    cells: dict[tuple[str, str], Cell] = {}
    for dialect in dialects:
        with tempfile.TemporaryDirectory(prefix="tandem-table-") as folder:
            async with one_upstream(shared, dialect, Path(folder)) as (recorder, tandem):
                for key in clients:
                    began = time.monotonic()
                    cell = await try_client(shared, CLIENTS[key], dialect, recorder, tandem, seconds)
                    cells[key, dialect] = cell
                    say(f"{dialect:<10} {key:<20} {time.monotonic() - began:5.1f} s  {cell.fault or cell.word}")
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(prog="make table", description=__doc__.splitlines()[0])
    parser.add_argument("--clients", default=",".join(CLIENTS), help="some of: %(default)s")
    parser.add_argument("--dialects", default=",".join(PATHS), help="some of: %(default)s")
    parser.add_argument("--check", action="store_true", help="run, and do not write the page")
    parser.add_argument("--seconds", type=int, default=120, help="the most that one run may take (default %(default)s)")
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared", help="where drivers and upstream are")
    arguments = parser.parse_args()
    clients, dialects = arguments.clients.split(","), arguments.dialects.split(",")
    unknown = [name for name in clients if name not in CLIENTS] + [name for name in dialects if name not in PATHS]
    if unknown:
        say(f"not known: {', '.join(unknown)}\nhint: --clients {','.join(CLIENTS)} --dialects {','.join(PATHS)}")
        return 2
    if not (arguments.shared / "clients").is_dir() or not (arguments.shared / "stub").is_dir():
        say(f"no drivers and no upstream beside the checkout: {arguments.shared.name}/\nhint: nothing was tried")
        return CANNOT_RUN
    # The routers run in this process: their line for each request would bury the line for each cell.
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        events.set_up_logging()
        cells = asyncio.run(fill(arguments.shared.resolve(), clients, dialects, arguments.seconds))
    is_whole = len(cells) == len(CLIENTS) * len(PATHS)
    if is_whole and not arguments.check:
        tables = write_tables(arguments.shared, cells)
        PAGE.write_text(_BLOCK.sub(lambda _: tables, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        say(f"wrote {PAGE.relative_to(ROOT)}")
    elif not arguments.check:
        say("the page was not written: it needs every client and every dialect")
    red = [f"{key} with {dialect}" for (key, dialect), cell in cells.items() if cell.fault]
    say(f"{len(cells) - len(red)} of {len(cells)} cells are green" + (f"; red: {', '.join(red)}" if red else ""))
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
