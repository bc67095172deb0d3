"""A router of the tree that a recipe changed, for the recipe's check. Run with that tree first on the path."""

import json
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

_TIERS = """
tiers:
  fast: {{targets: [{{name: spark, adapter: {adapter}, model: fast-1, options: {options}}}]}}
  deep: {{targets: [{{name: sage, adapter: simulated, model: deep-1}}]}}
"""


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str

    @property
    def tokens(self) -> int:
        return int(json.loads(self.body)["usage"]["completion_tokens"])


class Router:
    """Serves simulated tiers, with further blocks of the config by name."""

    def __init__(self, adapter: str = "simulated", options: str = "{ttft_seconds: 0}", **blocks: str) -> None:
        self._folder = Path(tempfile.mkdtemp())
        self.config = self._folder / "config.yaml"
        config = _TIERS.format(adapter=adapter, options=options) + "".join(f"{name}: {text}\n" for name, text in blocks.items())
        self.config.write_text(config)
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            self._port = free.getsockname()[1]

    def __enter__(self) -> Self:
        serve = ["-m", "router.cli", "serve", "--config", str(self.config), "--port", str(self._port)]
        self._process = subprocess.Popen([sys.executable, *serve], stdout=subprocess.DEVNULL)
        while self._process.poll() is None:
            try:
                self.get("/readyz")
                return self
            except URLError:
                time.sleep(0.05)
        raise RuntimeError("the router did not start")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def ask(self, path: str = "/v1/chat/completions", headers: dict[str, str] | None = None, **body: Any) -> Reply:
        """Send a chat request, and read the whole answer."""
        full = {"model": "auto", "messages": [{"role": "user", "content": "fix the typo"}], **body}
        sent = {"content-type": "application/json", **(headers or {})}
        return self._send(Request(f"http://127.0.0.1:{self._port}{path}", json.dumps(full).encode(), sent))

    def get(self, path: str) -> str:
        return self._send(Request(f"http://127.0.0.1:{self._port}{path}")).body

    def rows(self, columns: str) -> list[tuple[Any, ...]]:
        """What the ledger holds, once it holds something."""
        while True:
            with closing(sqlite3.connect(self._folder / "tandem.db")) as database:
                if found := database.execute(f"SELECT {columns} FROM entries").fetchall():
                    return found
            time.sleep(0.05)

    def _send(self, request: Request) -> Reply:
        try:
            with urlopen(request) as answer:
                return Reply(answer.status, dict(answer.headers), answer.read().decode())
        except HTTPError as error:
            return Reply(error.code, dict(error.headers), error.read().decode())
