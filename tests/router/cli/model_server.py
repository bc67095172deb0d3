"""A provider on loopback, in a thread of its own, for commands that run a loop of theirs: it lists models and answers chat."""

import http.server
import json
import threading
from dataclasses import dataclass, field


@dataclass
class ModelServer:
    """How it behaves, and what it was asked. Used as a context: it serves inside, and is gone after."""

    models: tuple[str, ...] = ("m",)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """Instead of the list of models."""
    answer_status: int = 200
    refusal: dict[str, object] = field(
        default_factory=lambda: {"error": {"message": "no money left", "type": "billing", "code": "billing"}}
    )
    """What it says where it does not answer."""
    hangs: bool = False
    needs_headers: dict[str, str] = field(default_factory=dict)
    """A request without these is refused, as gateways do."""
    seen: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path and key of every request."""
    facts: dict[str, object] = field(default_factory=dict)
    """What its list says of every model, as `owned_by` or `meta`."""
    pages: dict[str, object] = field(default_factory=dict)
    """What other paths answer, as `/props`. Without any, every path answers with the list."""
    loading: int = 0
    """How many more requests are told that the model is loading, as llama.cpp does."""

    def __enter__(self) -> "ModelServer":
        self._leave = threading.Event()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                owner._note(self)
                if owner._refuses(self):
                    return
                if owner.hangs:
                    owner._leave.wait(30)
                    self.close_connection = True
                    return
                if owner._is_loading(self) or owner._has_page(self):
                    return
                listed = json.dumps({"data": [{"id": name, **owner.facts} for name in owner.models]}).encode()
                owner._send(self, owner.status, listed if owner.body is None else owner.body, "application/json")

            def do_POST(self) -> None:
                owner._note(self)
                self.rfile.read(int(self.headers.get("content-length", 0)))
                if owner._refuses(self):
                    return
                if owner.answer_status != 200:
                    owner._send(self, owner.answer_status, json.dumps(owner.refusal).encode(), "application/json")
                    return
                choice = {"index": 0, "delta": {"role": "assistant", "content": "ok"}, "finish_reason": None}
                end = {"index": 0, "delta": {}, "finish_reason": "stop"}
                chunks = [
                    {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [part]}
                    for part in (choice, end)
                ]
                events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
                owner._send(self, 200, events.encode(), "text/event-stream")

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leave.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def _refuses(self, handler: http.server.BaseHTTPRequestHandler) -> bool:
        missing = [name for name, value in self.needs_headers.items() if handler.headers.get(name) != value]
        if missing:
            body = json.dumps({"error": {"message": f"{missing[0]} header is required"}}).encode()
            self._send(handler, 400, body, "application/json")
        return bool(missing)

    def _note(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        key = handler.headers.get("authorization", handler.headers.get("x-api-key", ""))
        self.seen.append((handler.command, handler.path, key))

    def _send(self, handler: http.server.BaseHTTPRequestHandler, status: int, body: bytes, kind: str) -> None:
        handler.send_response_only(status)
        for name, value in {"content-type": kind, "date": handler.date_time_string(), **self.headers}.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def _is_loading(self, handler: http.server.BaseHTTPRequestHandler) -> bool:
        if not self.loading:
            return False
        self.loading -= 1
        body = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
        self._send(handler, 503, json.dumps(body).encode(), "application/json")
        return True

    def _has_page(self, handler: http.server.BaseHTTPRequestHandler) -> bool:
        if not self.pages or handler.path.startswith("/v1/"):
            return False
        page = self.pages.get(handler.path)
        self._send(handler, 404 if page is None else 200, json.dumps(page).encode(), "application/json")
        return True
