"""Engines that start in a test and stop with it."""

import contextlib

import pytest

from tests.engine.engine import LlamaServer
from tests.engine.engine_twin import EngineTwin


@pytest.fixture(params=[pytest.param("llama.cpp", marks=pytest.mark.engine), "twin"])
def kind(request) -> str:
    """Which engine: the real one, or a stand-in that says the same."""
    return request.param


@pytest.fixture
async def engine(kind, tmp_path):
    """Start engines of one kind."""
    async with contextlib.AsyncExitStack() as stack:

        async def begin(*, window: int = 8192, slots: int = 1, **more: object):
            if kind == "twin":
                made = EngineTwin(window=window, slots=slots)
            else:
                made = LlamaServer(tmp_path, window=window, slots=slots, **more)
            await made.start()
            stack.push_async_callback(made.kill)
            return made

        yield begin
