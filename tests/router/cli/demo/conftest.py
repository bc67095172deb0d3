"""The demo, run once for all tests that look at what it did: three times as fast, with the same choices."""

import asyncio
import io
from dataclasses import dataclass
from pathlib import Path

import pytest

from router.cli.demo import Played, Shown, play


@dataclass
class PlayedDemo:
    folder: Path
    runs: dict[str, Played]
    printed: str


@pytest.fixture(scope="session")
def played_demo(tmp_path_factory) -> PlayedDemo:
    folder, out = tmp_path_factory.mktemp("demo"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    runs = asyncio.run(play(folder, 3.0, Shown(out)))
    return PlayedDemo(folder, runs, out.buffer.getvalue().decode())
