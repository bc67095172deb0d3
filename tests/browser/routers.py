"""Routers for the tests of the page: `tandem serve` of the project's own environment, with simulated tiers."""

import contextlib
import hashlib
import http.client
import json
import re
import secrets
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """
ledger: {path: page.db, keep_text: true}
tiers:
  fast:
    targets:
      - name: quick
        adapter: simulated
        accepts: [text, tools]
        price: {input: 0.2, output: 0.6}
        typical: {ttft_seconds: 0.2, tokens_per_second: 1000, prefill_tokens_per_second: 60000}
        options:
          {ttft_seconds: 0.02, tokens_per_second: 2000, answer_tokens: 60, faults: [{kind: error, when: stumbles}]}
  deep:
    targets:
      - name: thorough
        adapter: simulated
        window_tokens: 400000
        accepts: [text, tools]
        price: {input: 3, output: 15}
        typical: {ttft_seconds: 0.9, tokens_per_second: 65, prefill_tokens_per_second: 60000}
        options:
          {ttft_seconds: 0.3, tokens_per_second: 120, answer_tokens: 120, faults: [{kind: queue, when: unhurriedly, seconds: 600}]}
"""
UNHURRIED = "Read the whole code base unhurriedly"
"""The deep tier does not answer this while a test lasts: it runs until its caller leaves."""
LONG = "Migrate the whole code base to async, module by module, with tests"
TOOL_RESULTS = (
    {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "retrun x"},
)
_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")


class Router:
    """One router, from its start to its stop."""

    def __init__(self, folder: Path, more: str = "", **variables: str) -> None:
        self._ledger = folder / "page.db"
        (folder / "config.yaml").write_text(CONFIG + more)
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), **variables}
        command = [
            str(ROOT / ".venv/bin/tandem"),
            "serve",
            "--config",
            str(folder / "config.yaml"),
            "--port",
            "0",
            "--log",
            "text",
        ]
        self._process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._written: list[str] = []
        self._listening = threading.Event()
        self._wrote = threading.Condition()
        self.port = 0
        self.keys: dict[str, str] = {}
        self.asked: dict[str, str] = {}
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        if not self._listening.wait(60) or not self.port:
            self.stop()
            raise AssertionError(f"the router did not start:\n{self.log}")
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return "".join(self._written)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._wrote:
                self._written.append(line)
                self._wrote.notify_all()
            if not self.port and (found := _ADDRESS.search(line)):
                self.port = int(found[1])
                self._listening.set()
        self._listening.set()

    def wait_for_lines(self, text: str, number: int) -> None:
        """Wait until so many lines of the log hold the text: an answer may be here before its line."""
        with self._wrote:
            found = self._wrote.wait_for(lambda: self.log.count(text) >= number, 60)
        assert found, f"fewer than {number} lines with {text!r}:\n{self.log}"

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._listener.join(60)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def count_calls(self) -> int:
        """How many calls are in the ledger."""
        with contextlib.closing(sqlite3.connect(self._ledger)) as database:
            return int(database.execute("SELECT count(*) FROM entries").fetchone()[0])

    def post(self, path: str, body: dict[str, Any], **headers: str) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request("POST", path, json.dumps(body), {"content-type": "application/json", **given})
            reply = connection.getresponse()
            return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()
        finally:
            connection.close()

    def ask(self, text: str, *after: dict[str, Any], **headers: str) -> str:
        """Have a call served, and return its id. `after` are the messages after the text, where the turn has gone on.

        It is in the ledger then: an answer may be here before that, and a page that opens in between would not show it.
        """
        body = {"model": "auto", "stream": True, "messages": [{"role": "user", "content": text}, *after]}
        status, answered, content = self.post("/v1/chat/completions", body, **headers)
        assert status == 200, content
        name = answered["x-tandem-request-id"]
        deadline = time.monotonic() + 60
        while not self._has_recorded(name):
            assert time.monotonic() < deadline, f"{name} is not in the ledger:\n{self.log}"
            time.sleep(0.01)
        return name

    def _has_recorded(self, name: str) -> bool:
        with contextlib.closing(sqlite3.connect(self._ledger)) as database:
            return database.execute("SELECT 1 FROM entries WHERE id = ?", (name,)).fetchone() is not None

    def get(self, path: str, **headers: str) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path, headers=headers)
            return dict(json.loads(connection.getresponse().read()))
        finally:
            connection.close()

    def find(self, where: str) -> str:
        """The id of the newest such call in the ledger; empty if there is none."""
        with contextlib.closing(sqlite3.connect(self._ledger)) as database:
            found = database.execute(f"SELECT id FROM entries WHERE {where} ORDER BY sequence DESC LIMIT 1").fetchone()
        return str(found[0]) if found is not None else ""

    def wait_until(self, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)

    @contextlib.contextmanager
    def asking(self, text: str, **headers: str) -> Iterator[None]:
        """Have a call under way, whose caller leaves at the end."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        body = {"model": "auto", "stream": True, "messages": [{"role": "user", "content": text}]}
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json", **given})
            yield
        finally:
            connection.close()


class Server:
    """A Valkey or Redis server that routers share, on a Unix socket."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program, self._folder = program, folder
        self.url = f"unix://{folder}/socket"
        self.start()

    def start(self) -> None:
        command = [self._program, "--port", "0", "--unixsocket", "socket", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(command, cwd=self._folder, stdout=subprocess.DEVNULL)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(60)


def ask_every_kind(router: Router) -> None:
    """Have a turn of every kind: what a router with keys does for an admin, ada, and for bob, who has hardly any budget."""
    ada, bob = ({"authorization": f"Bearer {router.keys[name]}"} for name in ("ada", "bob"))
    asked = router.asked
    asked["plain"] = router.ask("fix the typo in README.md", x_tandem_session="plain", **ada)
    asked["spilled"] = router.ask("fix the typo that stumbles", x_tandem_session="spilled", **ada)
    ask, after = "fix the return in calc.py", [*TOOL_RESULTS]
    asked["tool result"] = router.ask(ask, x_tandem_session="moved", **ada) and router.ask(
        ask, *after, x_tandem_session="moved", **ada
    )
    after += [{**TOOL_RESULTS[0]}, {**TOOL_RESULTS[1], "content": "it stumbles"}]
    asked["moved up"] = router.ask(ask, *after, x_tandem_session="moved", **ada)
    router.ask(LONG, x_tandem_session="down", **ada)
    asked["moved down"] = router.ask("rename the variable", x_tandem_tier="fast", x_tandem_session="down", **ada)
    with router.asking(UNHURRIED, x_tandem_tier="deep", x_tandem_session="left", **ada):
        router.wait_until(lambda: router.get("/tandem/stats", **ada)["targets"]["thorough"]["in_flight"] > 0)
    router.wait_until(lambda: router.find("outcome = 'ABANDONED'"))
    asked["interrupted"] = router.find("outcome = 'ABANDONED'")
    body = {"model": "auto", "messages": [{"role": "user", "content": "fix the typo of bob"}]}
    status, *_ = router.post("/v1/chat/completions", body, x_tandem_session="refused", **bob)
    assert status == 429
    router.wait_until(lambda: router.find("outcome = 'REFUSED'"))
    asked["refused"] = router.find("outcome = 'REFUSED'")
    router.post("/v1/responses", {"model": "auto", "input": "review the whole project", "background": True}, **ada)
    router.wait_until(lambda: router.find("job IS NOT NULL"))
    asked["job"] = router.find("job IS NOT NULL")


def write_keys(folder: Path, **rights: str) -> dict[str, str]:
    """A key for each caller, with these rights, written to `keys.yaml`."""
    made, lines = {}, ["callers:"]
    for name, own in rights.items():
        key_id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        made[name] = f"tdm_{key_id}_{secret}"
        digest = hashlib.sha256(secret.encode()).hexdigest()
        listed = f'keys: [{{id: "{key_id}", sha256: {digest}, created: 2026-11-01T10:00:00Z}}]'
        lines.append(f"  {name}: {{{f'{own}, ' if own else ''}{listed}}}")
    path = folder / "keys.yaml"
    path.touch(0o600)
    path.write_text("\n".join(lines) + "\n")
    return made
