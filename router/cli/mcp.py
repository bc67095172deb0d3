"""`tandem mcp`: the tools of `mcp_tools` over the Model Context Protocol, on standard input and output.

A client that sends its first request at once leaves out the tools of a server that is slow to list them. So the handshake loads
next to nothing, and the first call loads the rest. Standard output is for the protocol alone.
"""

import argparse
import contextlib
import json
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from router.cli import Ended, installed_version
from router.cli.mcp_tools import INSTRUCTIONS, TOOLS

if TYPE_CHECKING:
    from router.cli.mcp_calls import Delegation
    from router.contract.request import Json, JsonObject

EXAMPLES = ("mcp", "mcp --url https://tandem.example --key-env TANDEM_KEY")
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Newest first: clients that know none of them are offered the newest."""
PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", help="where the router is (default: the one that runs here, else http://127.0.0.1:4000)")
    parser.add_argument("--key-env", metavar="NAME", help="the variable with your key, for a router that needs one")


def run(arguments: argparse.Namespace) -> int:
    """Serve one agent until it closes standard input."""
    if sys.stdin.isatty():
        print("tandem mcp speaks to a coding agent on standard input and output; Ctrl-C stops it", file=sys.stderr)
        print("  hint: tandem connect --mcp codex has Codex start it by itself", file=sys.stderr)
    session = Session(sys.stdout.buffer, lambda: _open_tools(arguments))
    try:
        for line in sys.stdin.buffer:
            session.hear(line)
    finally:
        session.close()
    return 0


def _open_tools(arguments: argparse.Namespace) -> "Delegation":
    from router.cli.background import Jobs  # with the rest, most of a second
    from router.cli.mcp_calls import Delegation
    from router.cli.reaching import find_url, read_own_key

    return Delegation(Jobs(find_url(arguments.url), read_own_key(arguments.key_env)))


class _Cancelled(Exception):
    """The client no longer waits for this call."""


class Session:
    """A client's messages, answered on `output`. Each call has a thread, so that one that waits delays no other."""

    def __init__(self, output: BinaryIO, open_tools: Callable[[], "Delegation"]) -> None:
        """`open_tools` is called with the first call, and may raise `Ended`."""
        self._output, self._open_tools = output, open_tools
        self._tools: Delegation | None = None
        self._opening, self._writing = threading.Lock(), threading.Lock()
        self._calls: dict[object, threading.Event] = {}
        """Set when a call is cancelled."""

    def hear(self, line: bytes) -> None:
        try:
            told = json.loads(line)
        except ValueError:
            self._send(None, _fail(PARSE_ERROR, "a message is one line of JSON"))
            return
        for message in told if isinstance(told, list) else [told]:
            if isinstance(message, dict) and isinstance(message.get("params", {}), dict):
                self._take(message, message.get("method"), message.get("params", {}))
            else:
                self._send(None, _fail(INVALID_REQUEST, "a message is an object, and so are its params"))

    def close(self) -> None:
        """Calls that wait end without an answer; others are finished."""
        for cancelled in list(self._calls.values()):
            cancelled.set()

    def _take(self, message: "JsonObject", method: object, params: "JsonObject") -> None:
        number = message.get("id")
        if "id" not in message:
            if method == "notifications/cancelled" and (call := self._calls.get(params.get("requestId"))) is not None:
                call.set()
        elif method == "tools/call":
            self._calls[number] = cancelled = threading.Event()
            threading.Thread(target=self._call, args=(number, params, cancelled)).start()
        elif method == "initialize":
            self._send(number, {"result": _introduce(params)})
        elif method in ("ping", "tools/list"):
            self._send(number, {"result": {} if method == "ping" else {"tools": [tool.describe() for tool in TOOLS]}})
        elif method is not None:  # else an answer, though nothing was asked
            self._send(number, _fail(UNKNOWN_METHOD, f"unknown method: {method}"))

    def _call(self, number: "Json", params: "JsonObject", cancelled: threading.Event) -> None:
        reply: JsonObject | None = _fail(INTERNAL_ERROR, "the tool failed; standard error of tandem mcp says why")
        try:
            reply = self._run(params, cancelled)
        except _Cancelled:
            reply = None
        finally:
            self._calls.pop(number, None)
            if reply is not None:
                self._send(number, reply)

    def _run(self, params: "JsonObject", cancelled: threading.Event) -> "JsonObject":
        name, given, sent = params.get("name"), params.get("arguments") or {}, params.get("_meta") or {}
        tool = next((tool for tool in TOOLS if tool.name == name), None)
        if tool is None or not isinstance(given, dict) or not isinstance(sent, dict):
            return _fail(INVALID_PARAMS, f"unknown tool: {name}" if tool is None else "arguments must be an object")

        def report(progress: float, state: str) -> None:
            if (token := sent.get("progressToken")) is not None:
                told: JsonObject = {"progressToken": token, "progress": progress, "message": state}
                self._write({"method": "notifications/progress", "params": told})

        def pause(seconds: float) -> None:
            if cancelled.wait(seconds):
                raise _Cancelled

        try:
            with self._opening:
                self._tools = self._tools or self._open_tools()
            answer = self._tools.call(tool, given, sent, report, pause)
        except Ended as end:
            return _say(end.text, is_error=True)
        return _say(answer.text, is_error=answer.is_error)

    def _send(self, number: "Json", reply: "JsonObject") -> None:
        self._write({"id": number, **reply})

    def _write(self, message: "JsonObject") -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self._writing, contextlib.suppress(OSError):  # a client that has left closes standard input too
            self._output.write(line)
            self._output.flush()


def _introduce(params: "JsonObject") -> "JsonObject":
    asked = params.get("protocolVersion")
    return {
        "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": "tandem", "title": "Tandem", "version": installed_version()},
        "instructions": INSTRUCTIONS,
    }


def _say(text: str, *, is_error: bool) -> "JsonObject":
    return {"result": {"content": [{"type": "text", "text": text}], "isError": is_error}}


def _fail(code: int, text: str) -> "JsonObject":
    return {"error": {"code": code, "message": text}}
