"""The demo, run once for all tests that look at what it did: three times as fast, with the same choices."""

import asyncio
import io
from dataclasses import dataclass
from pathlib import Path

import pytest

from router.cli.demo import Accounts, play
from router.cli.demo.screen import Screen


@dataclass
class PlayedDemo:
    folder: Path
    accounts: Accounts
    printed: str


@pytest.fixture(scope="session")
def played_demo(tmp_path_factory) -> PlayedDemo:
    folder, out = tmp_path_factory.mktemp("demo"), io.StringIO()
    accounts = asyncio.run(play(folder, 3.0, Screen(out)))
    return PlayedDemo(folder, accounts, out.getvalue())
