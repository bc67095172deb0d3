"""`log`, `stats`, `why` and `wrong` of another router: what they print is what they print of its ledger."""

import asyncio
import contextlib
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from router.cli import main
from tests.conftest import SIMULATED
from tests.router.cli.recorded import record_turns
from tests.tools.kept import ANN, BOB, make_entry
from tests.tools.keyed import KEYS, Callers
from tests.tools.ledgers import write_ledger
from tests.tools.running import running

LONG = "Implement the whole parser from scratch, with tests and docs"


@contextlib.contextmanager
def serving(config: str, folder):
    """A router that runs in a thread, so that commands can ask it as they ask any other."""
    loop, ready, ended, found = asyncio.new_event_loop(), threading.Event(), asyncio.Event(), []

    async def serve() -> None:
        async with running(config, folder) as tandem:
            found.append(tandem)
            ready.set()
            await ended.wait()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(serve())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(30)
        yield found[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(30)


@pytest.fixture
def router(folder):
    record_turns(folder, LONG, "fix the typo", calls=2)
    with serving(SIMULATED, folder) as tandem:
        yield tandem


def printed(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main([*arguments])
    told = capsys.readouterr()
    return code, told.out, told.err


COMMANDS = (
    "log",
    "log -n 1",
    "log --json --since 1h",
    "log --markdown",
    "log --caller nobody",
    "log --sessions",
    "log --sessions --json",
    "stats",
    "stats --by caller",
    "stats --json",
    "why",
    "why req_1",
    "why req_call_1 --json",
)
MARKS = ("wrong", "wrong", "wrong fast", "wrong fast", "wrong deep req_call_2", "wrong fast")
"""Leaves no mark at the end."""


def test_of_a_router_they_print_what_they_print_of_its_ledger(router, capsys, subtests):
    for command in COMMANDS:
        with subtests.test(command):
            here = printed(capsys, *command.split())

            assert printed(capsys, *command.split(), "--url", router.url) == here


def test_a_turn_is_marked_at_a_router_in_the_words_of_its_ledger(router, capsys):
    here = [printed(capsys, *command.split()) for command in MARKS]
    there = [printed(capsys, *command.split(), "--url", router.url) for command in MARKS]

    assert there == here
    assert [code for code, *_ in here] == [0, 0, 0, 1, 0, 0]


def test_what_is_not_there_is_said_of_the_router(router, capsys):
    assert printed(capsys, "why", "req_9", "--url", router.url) == (1, "", f"no request req_9 in {router.url}\n")
    code, _, told = printed(capsys, "wrong", "deep", "--rule", "scan", "--url", router.url)
    assert (code, "--rule writes into the config here" in told) == (2, True)


def test_with_a_key_it_is_the_callers_own(folder, capsys, monkeypatch):
    write_ledger(folder / "test.db", make_entry("req_1", ANN, session="s"), make_entry("req_2", BOB, session="t"))
    callers = Callers(folder, ann={}, bob={})
    monkeypatch.setenv("OWN_KEY", callers["ann"]["authorization"].removeprefix("Bearer "))
    with serving(KEYS + SIMULATED, folder) as tandem:
        own = ("--url", tandem.url, "--key-env", "OWN_KEY")

        assert len(printed(capsys, "log", *own)[1].splitlines()) == 2
        assert "bob" not in printed(capsys, "stats", "--by", "caller", *own)[1]
        assert printed(capsys, "wrong", "deep", "req_2", *own)[0] == 1
        code, _, told = printed(capsys, "log", "--url", tandem.url)

    assert (code, "hint: name it with --key-env" in told) == (1, True)


@contextlib.contextmanager
def answering(status: int, body: bytes, *headers: tuple[str, str]):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for header in headers:
                self.send_header(*header)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("command", ["log", "stats", "why", "wrong"])
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            (404, b'{"error": {"message": "no route /tandem/past/turns. Create calls: ..."}}', ("x-tandem-request-id", "r")),
            "older",
        ),
        ((404, b"not here"), "not a Tandem router"),
        ((200, b"[]"), "no router answers"),
        ((503, b'{"error": {"message": "the ledger cannot be read now"}}', ("x-tandem-request-id", "r")), "cannot be read now"),
    ],
    ids=["older", "another", "nonsense", "trouble"],
)
def test_a_router_that_cannot_answer_is_told_from_others(here, capsys, command, answer, words):
    with answering(*answer) as url:
        code, out, told = printed(capsys, command, "--url", url)

    assert (code, out, words in told) == (1, "", True), told


@pytest.mark.parametrize("command", ["log", "stats", "why", "wrong"])
def test_where_no_router_answers_it_says_so(here, capsys, command):
    code, _, told = printed(capsys, command, "--url", "http://127.0.0.1:9")

    assert code == 1
    assert told.startswith("no router answers at http://127.0.0.1:9")
