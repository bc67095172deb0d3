"""`make quick`: leaves out tests that start a server or process, or load a vendor's SDK; unmarked ones fail.

Mark a fixture that starts something with `@starts` where it is defined; tests that use it are left out, and cases that ask for
it at run time are skipped. Mark a test that starts something itself with `pytest.mark.starts`.
"""

import sys
from collections.abc import Callable, Iterator
from typing import NoReturn, TypeVar

import pytest
from hypothesis import settings

Function = TypeVar("Function", bound=Callable)

_running: list[pytest.Item] = []


def starts(function: Function) -> Function:
    """Mark a fixture that starts a server or process; write it below `@pytest.fixture`."""
    function.starts_something = True  # type: ignore[attr-defined]
    return function


def _refuse(*_: object, **__: object) -> NoReturn:
    pytest.fail("a quick test starts no server and no process: mark it by pytest.mark.starts, or its fixture by @starts")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    from tests.tools.closing_loop import ClosingLoop

    settings.register_profile("quick", max_examples=10, deadline=None)
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


def _skip(**_: object) -> NoReturn:
    pytest.skip("a fixture would start a server or a process")


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> None:
    """Have the fixture itself skip: pytest caches that outcome for the next case."""
    if hasattr(fixturedef.func, "starts_something"):
        fixturedef.func = _skip  # type: ignore[misc]


def starts_something(item: pytest.Item) -> bool:
    if item.get_closest_marker("starts"):
        return True
    known = getattr(item, "_fixtureinfo", None)
    used = [made for name in known.names_closure for made in known.name2fixturedefs.get(name, ())] if known else []
    return any(hasattr(made.func, "starts_something") for made in used)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = {item for item in items if starts_something(item)}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
