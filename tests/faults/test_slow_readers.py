"""Callers that read nothing of a large stream (row S): what the router holds for each is bounded, however fast the target is."""

import contextlib
import socket
import tracemalloc

import pytest

from tests.bench.slow_readers import request_for
from tests.tools.running import two_targets
from tests.tools.upstream import CHAT_STREAM_HEAD, chat_frame
from tests.tools.waiting import until

READERS = 20
ALLOCATED_BY = [tracemalloc.Filter(True, f"*/{folder}/*") for folder in ("router", "websockets", "httptools")]


async def write_without_end(wire, seen):
    await wire.send(CHAT_STREAM_HEAD)
    frames = chat_frame("a few words of an answer ") * 400
    while True:
        await wire.chunk(frames)


@pytest.fixture
def traced():
    tracemalloc.start()
    yield lambda: sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(ALLOCATED_BY).traces)
    tracemalloc.stop()


@pytest.mark.parametrize(("kind", "most_kb"), [("chat", 200), ("responses", 320), ("socket", 480)])
async def test_a_stream_that_nobody_reads_holds_little(start, upstream, traced, kind, most_kb):
    """Unsent bytes, the newest frames, and of a translated answer its words, which its last events repeat."""
    upstream.scripts = [write_without_end] * READERS
    tandem = await start(two_targets(upstream.base_url, upstream.base_url))
    with contextlib.ExitStack() as stack:
        before = traced()
        for _ in range(READERS):
            caller = stack.enter_context(socket.socket())
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)  # the less the kernel takes, the sooner all wait
            caller.connect(("127.0.0.1", tandem.port))
            caller.sendall(request_for(kind))

        await until(lambda: [one.is_paused for one in tandem.connections] == [True] * READERS)

        assert (traced() - before) / READERS <= most_kb * 1024
