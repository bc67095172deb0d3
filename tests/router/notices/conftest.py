"""The log as JSON, and work in a thread."""

import asyncio

import pytest

from router.telemetry import events


@pytest.fixture
def json_log():
    events.set_up_logging()


@pytest.fixture
def in_thread():
    return asyncio.to_thread
