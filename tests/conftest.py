"""Fixtures that many tests share."""

import asyncio
import contextlib
import faulthandler
import gc
import json
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings
from pydantic import TypeAdapter

from router.contract.words import Dialect
from router.dispatch.live import circuit
from router.telemetry import events
from tests.tools.loop_clock import JumpingLoop
from tests.tools.quick import starts
from tests.tools.running import Running, running
from tests.tools.upstream import Upstream
from tests.tools.waiting import some_turns, until

# A deadline for each example would be a matter of luck on a loaded machine. `--hypothesis-profile thorough` looks for longer.
settings.register_profile("brief", max_examples=60, deadline=None)
settings.register_profile("thorough", max_examples=2_000, deadline=None)
settings.load_profile("brief")

collect_ignore = ["browser"]
"""Run by `make test-page`, in an environment of its own."""
SHARED = Path(__file__).resolve().parents[2] / "shared"
_REAL_STDERR = pytest.StashKey[int]()


class Announcer:
    """Prints what failed at once, in a few lines; the whole report follows at the end, as ever."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.write_line(f"\nFAILED {report.nodeid} ({report.when})", red=True)
            self._terminal.write_line(short_report(report))


def short_report(report: pytest.TestReport) -> str:
    """Where a test failed and the first lines of why, indented."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = f"{crash.path}:{crash.lineno}: {crash.message}" if crash else report.longreprtext
    return textwrap.indent("\n".join(lines.splitlines()[:12]), "    ")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    config.stash[_REAL_STDERR] = os.dup(sys.__stderr__.fileno())  # before output is captured
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):  # a worker's failures are announced where they arrive
        config.pluginmanager.register(Announcer(terminal))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Collect without the garbage collector, which took a third of the time for nothing: what is collected stays.

    Nor does it look at all of that again whenever a test makes it run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Watch the teardown of a failed test: with a debugger in mind, pytest stops its own limits once a test has failed.

    A thread that blocks or a task that ignores its cancellation would hold up the whole run, without a summary.
    """
    if isinstance(node, pytest.Item) and not node.config.getoption("usepdb"):
        seconds = float(node.config.getini("faulthandler_timeout"))
        faulthandler.dump_traceback_later(seconds, exit=True, file=node.config.stash[_REAL_STDERR])


@pytest.fixture(scope="session", autouse=True)
def _own_state(tmp_path_factory):
    """What routers of tests remember about themselves stays out of the person's own folder."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session", autouse=True)
def _quiet_logs():
    events.set_up_logging()


@pytest.fixture(scope="session")
@starts
def sdk():
    """The vendors' types, as validators of stream events and whole answers by dialect. They take seconds to load."""
    from anthropic.types import Message, RawMessageStreamEvent
    from openai.types import Completion, chat, responses

    events = {
        Dialect.CHAT: chat.ChatCompletionChunk,
        Dialect.RESPONSES: responses.ResponseStreamEvent,
        Dialect.MESSAGES: RawMessageStreamEvent,
    }
    whole = {Dialect.CHAT: chat.ChatCompletion, Dialect.RESPONSES: responses.Response, Dialect.MESSAGES: Message}
    adapters = ({dialect: TypeAdapter(kind) for dialect, kind in kinds.items()} for kinds in (events, whole))
    return SimpleNamespace(events=next(adapters), whole=next(adapters), responses=responses, Completion=Completion)


@pytest.fixture(scope="session")
@starts
def postgres():
    """A PostgreSQL server for the run."""
    pytest.importorskip("asyncpg")
    from tests.tools.postgres import PostgresServer, find_binaries

    if (binaries := find_binaries()) is None:
        pytest.skip("no PostgreSQL server on this machine: sudo apt install postgresql")
    server = PostgresServer(binaries)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def _valkey_server():
    pytest.importorskip("hiredis")
    from tests.tools.valkey import ValkeyServer, find_server

    if (program := find_server()) is None:
        pytest.skip("no Valkey or Redis server on this machine: sudo apt install valkey-server or redis-server")
    server = ValkeyServer(program)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
@starts
def _valkey_of_the_run():
    with _valkey_server() as server:
        yield server


@pytest.fixture
def valkey(_valkey_of_the_run):
    """The Valkey or Redis server of the run, empty."""
    _valkey_of_the_run.send("FLUSHALL")
    return _valkey_of_the_run


@pytest.fixture
@starts
def own_valkey():
    """A Valkey or Redis server for one test, which may pause or kill it."""
    with _valkey_server() as server:
        yield server


@pytest.fixture(autouse=True)
def _signals_as_before():
    """A server that was stopped ignores further signals for good. Programs that later tests start must not inherit that."""
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture
def heard_signals():
    """Signals as a terminal gives them to a program: `nohup` ignores SIGHUP, a script's `&` SIGINT, and both are inherited."""
    usual = {signal.SIGHUP: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def listen(capsys):
    """Begin to listen to the log, inside a test: what it answers reads the events that were logged since."""

    def begin() -> Callable[[], list[dict]]:
        events.set_up_logging()
        return lambda: [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    yield begin
    events.set_up_logging()


def pytest_asyncio_loop_factories(config, item):
    """The loop that users have: uvloop where it is installed. Whole requests are walked on asyncio's own loop too."""
    if item.get_closest_marker("jumping_clock"):
        return {"jumping": JumpingLoop}
    loops = {"asyncio": asyncio.new_event_loop}
    try:
        from tests.tools.closing_loop import ClosingLoop
    except ImportError:
        return loops
    if "walk" in item.path.parts:
        return {"uvloop": ClosingLoop, **loops}
    return {"uvloop": ClosingLoop}


_STORES = {"postgres", "valkey", "own_valkey"}


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests of shared stores, by the fixtures that start a server."""
    if _STORES.intersection(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.stores)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Walk on asyncio's own loop too where it may differ: tests of the wire once each, and one of every other file."""
    first: dict[str, pytest.Item] = {}
    others = set()
    for item in items:
        if "[asyncio" in item.name:
            test = item.nodeid.partition("[")[0]
            what = test if item.get_closest_marker("wire") else test.partition("::")[0]
            if first.setdefault(what, item) is not item:
                others.add(item)
    if others:
        config.hook.pytest_deselected(items=list(others))
        items[:] = [item for item in items if item not in others]


@pytest.fixture
def shared() -> Path:
    """The material beside the checkout. Tests that need it say so when it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"no {SHARED.name}/ beside the checkout: this test did not run")
    return SHARED


@pytest.fixture
@starts
async def upstream():
    server = Upstream()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
@starts
async def other_upstream():
    server = Upstream()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
@starts
async def start(tmp_path):
    """Start a Tandem from the text of a config. It stops with the test."""
    async with contextlib.AsyncExitStack() as stack:

        async def begin(config: str, folder: Path | None = None) -> Running:
            return await stack.enter_async_context(running(config, folder or tmp_path))

        yield begin


@pytest.fixture
def long_rests(monkeypatch):
    """Targets that failed rest for a minute, however slow the machine is. Returns what ends the rest of one."""
    monkeypatch.setattr(circuit, "_FIRST_REST_SECONDS", 60.0)

    async def end(tandem: Running, name: str) -> None:
        live, targets = tandem.house.state.live, tandem.house.plan.targets
        live.of(targets[name]).circuit.rested_until = 0.0
        await until(lambda: not live.statuses(targets, tandem.house.clock())[name].is_resting)

    return end


@pytest.fixture
async def simulated(start):
    """A Tandem with two simulated tiers that do not dawdle."""
    return await start(SIMULATED)


SIMULATED = """
ledger: {path: test.db}
models: {auto: auto, "*haiku*": fast, "gpt-*": auto, quick: simulated-fast}
tiers:
  fast:
    targets:
      - name: simulated-fast
        adapter: simulated
        accepts: [text, tools, custom_tools, json_schema, reasoning, completions]
        typical: {ttft_seconds: 0.2, tokens_per_second: 1000, prefill_tokens_per_second: 60000}
        options: {ttft_seconds: 0.005, tokens_per_second: 50000, prefill_tokens_per_second: 100000000, answer_tokens: 40}
  deep:
    targets:
      - name: simulated-deep
        adapter: simulated
        window_tokens: 400000
        accepts: [text, tools, custom_tools, json_schema, reasoning, images, files]
        typical: {ttft_seconds: 0.9, tokens_per_second: 65, prefill_tokens_per_second: 60000}
        options: {ttft_seconds: 0.02, tokens_per_second: 20000, prefill_tokens_per_second: 100000000, answer_tokens: 40}
"""


@pytest.fixture(scope="module")
@starts
def running_in_thread(tmp_path_factory):
    """A Tandem in a thread of its own, for property tests: send bytes in slices, get so many replies."""
    import threading

    from tests.tools.http import read_reply

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)  # whatever fails here must not keep the worker alive
    thread.start()
    stack = contextlib.AsyncExitStack()

    def run(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    tandem = run(stack.enter_async_context(running(SIMULATED, tmp_path_factory.mktemp("thread"))))

    async def exchange(data: bytes, cuts: list[int], count: int):
        reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port, limit=1 << 24)
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            writer.write(data[start:end])
            await some_turns(20)
        replies = [await asyncio.wait_for(read_reply(reader), 30) for _ in range(count)]
        writer.close()
        return replies

    yield lambda data, cuts, count: run(exchange(data, cuts, count))
    run(stack.aclose())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
