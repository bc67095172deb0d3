"""An app is built at its first call, once, without holding up the loop."""

import asyncio
import threading

import pytest

from router.contract.errors import InternalFault
from router.edge.http.asgi import LateApp
from router.telemetry import events


class Calls:
    """An app that notes its calls, and how often it was built."""

    def __init__(self) -> None:
        self.built, self.paths = 0, []
        self.may_build = threading.Event()
        self.may_build.set()

    def build(self):
        assert self.may_build.wait(10)
        self.built += 1
        return self

    async def __call__(self, scope, receive, send) -> None:
        self.paths.append(scope["path"])


async def call(app: LateApp, path: str) -> None:
    await app({"type": "http", "path": path, "state": {"request_id": f"req_{path}"}}, None, None)


async def test_it_is_built_at_the_first_call_and_not_again():
    calls = Calls()
    app = LateApp(calls.build)
    assert calls.built == 0

    await call(app, "/a")
    await call(app, "/b")

    assert (calls.built, calls.paths) == (1, ["/a", "/b"])


async def test_calls_that_come_at_once_share_one_building_and_the_loop_goes_on_meanwhile():
    calls = Calls()
    calls.may_build.clear()
    app = LateApp(calls.build)

    async def let_it_build() -> None:
        calls.may_build.set()  # only a loop that goes on gets here

    await asyncio.gather(call(app, "/a"), call(app, "/b"), let_it_build())

    assert (calls.built, sorted(calls.paths)) == (1, ["/a", "/b"])


async def test_it_can_be_built_before_the_first_call():
    calls = Calls()
    app = LateApp(calls.build)

    await app.load()
    assert calls.built == 1
    await call(app, "/a")

    assert (calls.built, calls.paths) == (1, ["/a"])


async def test_a_building_that_failed_is_logged_answered_and_tried_again(monkeypatch):
    calls, logged = Calls(), []
    failures = [ImportError("broken")]
    monkeypatch.setattr(events, "fault_caught", lambda **fields: logged.append(fields))

    def build():
        if failures:
            raise failures.pop()
        return calls.build()

    app = LateApp(build)
    with pytest.raises(InternalFault):
        await call(app, "/a")
    failures.append(ImportError("still broken"))
    await app.load()  # ahead of a call, nobody is told
    await call(app, "/b")

    assert [(fields["request_id"], fields["kind"]) for fields in logged] == [("req_/a", "ImportError"), ("", "ImportError")]
    assert calls.paths == ["/b"]
