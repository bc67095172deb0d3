"""The demo, run once for all tests that look at what it did: three times as fast, with the same choices."""

import asyncio
import io
from dataclasses import dataclass
from pathlib import Path

import pytest

from router.cli.demo import Played, open_screen, play
from router.screen.terminal import Plain
from router.screen.text import Style


@dataclass
class PlayedDemo:
    folder: Path
    runs: dict[str, Played]
    printed: str


@pytest.fixture(scope="session")
def played_demo(tmp_path_factory) -> PlayedDemo:
    folder, out = tmp_path_factory.mktemp("demo"), io.StringIO()
    runs = asyncio.run(play(folder, 3.0, open_screen(Plain(out), Style())))
    return PlayedDemo(folder, runs, out.getvalue())
