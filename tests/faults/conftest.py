import contextlib
from functools import partial

import pytest

from router.responses import acknowledged
from tests.faults.rig import KEY, Rig, rigged


@pytest.fixture
async def set_up(tmp_path, monkeypatch, listen):
    """Set a rig up. The rules for all faults are checked at the end."""
    monkeypatch.setenv("RIG_KEY", KEY)
    read_log = listen()
    async with contextlib.AsyncExitStack() as stack:

        async def begin(dialect: str = "chat", *, fast_url: str | None = None, **how: str) -> Rig:
            return await stack.enter_async_context(rigged(tmp_path, dialect, how, fast_url, read_log))

        yield begin


@pytest.fixture
def patient_answers(monkeypatch):
    """Make answers wait for shared stores without a limit: order counts here, not the machine's speed."""
    monkeypatch.setattr(acknowledged, "AcknowledgedSink", partial(acknowledged.AcknowledgedSink, hold_seconds=60.0))
