"""What `make quick` adds to pytest: tests of files that start a server or a process are left out, and one that does so fails.

Such files are known by what they import or call, and single tests by their fixtures, so nobody keeps a list.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import settings

from tests.tools.closing_loop import ClosingLoop

_STARTING_FIXTURES = frozenset({"start", "upstream", "other_upstream", "simulated", "running_in_thread", "postgres"})
_starts = re.compile(r"\b(subprocess|start_server|bind|running|running_edge|SocketUpstream|CountingProcess)\b").search

_running: list[pytest.Item] = []

settings.register_profile("quick", max_examples=10, deadline=None)


def _refuse(*_: object, **__: object) -> NoReturn:
    pytest.fail(f"a quick test starts no server and no process: {__file__} must know this file or fixture by a name")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("quick")
    ClosingLoop.create_server = _refuse  # type: ignore[method-assign]  # for this run of pytest alone
    sys.addaudithook(lambda event, _: _refuse() if event == "subprocess.Popen" and _running else None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _running.append(item)
    try:
        return (yield)
    finally:
        _running.clear()


def _starts_by_fixture(item: pytest.Item) -> bool:
    """Whether a fixture of the test starts something, as its code or its name says."""
    known = getattr(item, "_fixtureinfo", None)
    if "postgres" in getattr(getattr(item, "callspec", None), "id", "").split("-"):  # a case that asks for its fixture late
        return True
    used = [made for name in known.names_closure for made in known.name2fixturedefs.get(name, ())] if known else []
    return any(
        made.argname in _STARTING_FIXTURES or (made.baseid and _starts(inspect.getsource(made.func)))  # pytest's own have no id
        for made in used
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    starting = {path for path in {item.path for item in items} if _starts(Path(path).read_text())}
    left_out = {item for item in items if item.path in starting or _starts_by_fixture(item)}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
