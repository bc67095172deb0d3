"""A scripted feed of a router."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import to_builtins

from tests.tools.kept import LINE


def make_row(name: str, number: int = 1, **more: Any) -> dict:
    """A call of ada's, served by spark."""
    row = to_builtins(LINE)
    row["id"] = row.pop("request_id")
    known = {"id": name, "number": number, "at": 1_000.0, "caller": "ada", "session": "s-1", "tier": "fast", "target": "spark"}
    return {**row, **known, "because": "quick edit: typo", "turn_kind": "ask", "hop": None, "decided_by": None, **more}


def make_begun(name: str, **more: Any) -> dict:
    known = {"id": name, "at": 1_000.0, "caller": "ada", "session": "s-1", "turn_kind": "ask", "client": "codex"}
    return {**known, "tier": "fast", "target": "spark", "because": "quick edit: typo", **more}


def make_hello(**more: Any) -> dict:
    return {"caller": "ada", "admin": True, "keys": False, "now": 1_000.0, "running": [], "notices": [], **more}


def event(name: str, data: dict, number: int | None = None) -> bytes:
    own = f"id: {number}\n" if number is not None else ""
    return f"event: {name}\n{own}data: {json.dumps(data)}\n\n".encode()


def batch(*rows: dict, number: int = 1, **more: Any) -> bytes:
    return event("batch", {"begun": [], "rows": list(rows), "more": 0, "missed": 0, **more}, number)


class FeedServer:
    """Each connection gets the next of `scripts`; the last stays open. An int is a status."""

    def __init__(self) -> None:
        self.scripts: list[list[bytes] | int] = []
        self.asked: list[tuple[str, str | None]] = []
        """Path and key of each request."""
        self.stop = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server._answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append((handler.path, handler.headers.get("authorization")))
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        is_last = len(self.scripts) == 1 and script is self.scripts[0]
        handler.send_response(script if isinstance(script, int) else 200)
        handler.end_headers()
        if isinstance(script, int):
            return
        with contextlib.suppress(OSError):
            for piece in script:
                handler.wfile.write(piece)
                handler.wfile.flush()
            if is_last:
                self.stop.wait(60)


@contextlib.contextmanager
def serving_feed(*scripts: list[bytes] | int) -> Iterator[FeedServer]:
    server = FeedServer()
    server.scripts = list(scripts)
    thread = threading.Thread(target=server._server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop.set()
        server._server.shutdown()
        server._server.server_close()
        thread.join(30)
