"""A scripted background API of a router."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

JOB = "resp_1"
RESPONSES = "/v1/responses"
RUNNING, COMPLETED = "in_progress", "completed"
_STATES = {RUNNING: "running"}


def make_response(text: str = "all is well", status: str = COMPLETED, **more: Any) -> dict:
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    known = {"id": JOB, "object": "response", "status": status, "background": True, "created_at": 1_000, "error": None}
    usage = {"input_tokens": 10, "output_tokens": 1_200}
    ended = {"completed_at": 1_041, "usage": usage} if status == COMPLETED else {}
    return {**known, "output": [message] if text else [], **ended, **more}


def make_job(name: str = JOB, state: str = "completed", **more: Any) -> dict:
    """A job as `GET /tandem/jobs` lists it."""
    known = {"id": name, "state": state, "tier": "deep", "title": "find the race", "session": None, "caller": "local"}
    return {**known, "attempts": 1, "created_at": 1_000.0, "ended_at": 1_041.0 if state == COMPLETED else None, **more}


def event(name: str, number: int, **data: Any) -> bytes:
    body = {"type": name, "sequence_number": number, **data}
    return f"event: {name}\ndata: {json.dumps(body)}\n\n".encode()


def delta(text: str, number: int) -> bytes:
    return event("response.output_text.delta", number, delta=text)


def end(number: int, **more: Any) -> bytes:
    response = make_response(**more)
    return event(f"response.{response['status']}", number, response=response)


class JobsServer:
    """One job, `resp_1`. Each stream connection gets the next of `streams`; an int is a status, None closes it at once."""

    def __init__(self) -> None:
        self.streams: list[list[bytes] | int | None] = []
        self.responses: list[dict] = [make_response()]
        """Answers to reads in turn, the last repeated. The job's state follows."""
        self.jobs = [make_job()]
        self.most_listed = 100
        self.refusal: tuple[int, dict | bytes] | None = None
        """Status and body for every request."""
        self.owner = ""
        """The owner that an admin sees: others' jobs can be listed but not read."""
        self.asked: list[tuple[str, str, str | None]] = []
        """Method, path and key of each request."""
        self.bodies: list[dict] = []
        self.sessions: list[str | None] = []
        self.is_router = True
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server._answer(self)

            def do_POST(self) -> None:
                server._answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def paths(self) -> list[str]:
        return [f"{method} {path}" for method, path, _ in self.asked]

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append((handler.command, handler.path, handler.headers.get("authorization")))
        raw = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        parts = urlsplit(handler.path)
        query = dict(parse_qsl(parts.query))
        if self.refusal is not None:
            self._send(handler, *self.refusal)
        elif handler.command == "POST" and parts.path == RESPONSES:
            self.bodies.append(json.loads(raw))
            self.sessions.append(handler.headers.get("x-tandem-job-session"))
            self._send(handler, 200, make_response("", "queued"))
        elif parts.path == "/tandem/jobs":
            self._send(handler, 200, self._list(query))
        elif parts.path == f"/tandem/jobs/{JOB}":
            whose = {"caller": self.owner, "title": ""} if self.owner else {}
            self._send(handler, 200, make_job(state=self._state(self._next_response()), **whose))
        elif self.owner:
            self._send(handler, 404, {"error": {"code": "not_found", "message": "there is no such response"}})
        elif parts.path == f"{RESPONSES}/{JOB}/cancel":
            self._send(handler, 200, make_response("", "cancelled"))
        elif parts.path == f"{RESPONSES}/{JOB}" and "stream" in query:
            self._stream(handler)
        elif parts.path == f"{RESPONSES}/{JOB}":
            self._send(handler, 200, self._next_response())
        else:
            self._send(handler, 404, {"error": {"code": "not_found", "message": "there is no such response"}})

    def _next_response(self) -> dict:
        return self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]

    @staticmethod
    def _state(response: dict) -> str:
        return _STATES.get(response["status"], response["status"])

    def _list(self, query: dict[str, str]) -> dict:
        wanted = [job for job in self.jobs if query.get("state") in (None, job["state"])]
        names = [job["id"] for job in wanted]
        first = names.index(query["before"]) + 1 if "before" in query else 0
        page = wanted[first : first + min(int(query["limit"]), self.most_listed)]
        has_more = first + len(page) < len(wanted)
        return {"object": "list", "data": page, "has_more": has_more, "before": page[-1]["id"] if has_more else None}

    def _stream(self, handler: BaseHTTPRequestHandler) -> None:
        script = self.streams.pop(0) if self.streams else None
        if isinstance(script, int):
            self._send(handler, script, {"error": {"code": "x", "message": f"refused with {script}"}})
            return
        if script is None:
            handler.close_connection = True
            return
        self._begin(handler, 200)
        with contextlib.suppress(OSError):
            for piece in script:
                handler.wfile.write(piece)
                handler.wfile.flush()

    def _send(self, handler: BaseHTTPRequestHandler, status: int, body: dict | bytes) -> None:
        self._begin(handler, status)
        handler.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

    def _begin(self, handler: BaseHTTPRequestHandler, status: int) -> None:
        handler.send_response(status)
        if self.is_router:
            handler.send_header("x-tandem-request-id", "req_1")
        handler.end_headers()


@contextlib.contextmanager
def serving_jobs() -> Iterator[JobsServer]:
    server = JobsServer()
    thread = threading.Thread(target=server._server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server._server.shutdown()
        server._server.server_close()
        thread.join(30)
