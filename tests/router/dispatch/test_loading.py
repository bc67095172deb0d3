"""Asking a target that is loading whether it is ready. The way of whole requests is in tests/walk/test_loading.py."""

from dataclasses import replace

import pytest

from router.contract.errors import CallerKey, UpstreamUnreachable
from router.dispatch.live.statistics import LiveStatistics
from router.dispatch.loading import watch_loading
from tests.tools.scripted import reach
from tests.tools.values import make_target
from tests.tools.waiting import until

LOADING = b'{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}'


class Asked:
    """An adapter whose target answers these, one after the other."""

    def __init__(self, *answers) -> None:
        self.answers, self.paths = list(answers), []

    def open_route(self, target, request, sink):
        self.paths.append((request.method, request.path))
        answer = self.answers.pop(0)
        if isinstance(answer, CallerKey):
            raise answer
        if isinstance(answer, Exception):
            sink.fail(answer)
        else:
            sink.start(answer[0], ())
            sink.write(answer[1])
            sink.end()
        return self

    def cancel(self) -> None:
        """Nothing is under way."""


async def watch(adapter) -> LiveStatistics:
    """Have a loading target asked until that is over."""
    live, target = LiveStatistics(), make_target()
    reachable = replace(reach(target), adapter=adapter)
    live.statuses({"spark": target}, 0.0)
    live.keep_loading(target, "Loading model", 0.0)
    assert live.statuses({"spark": target}, 0.0)["spark"].loading == "Loading model"
    watch_loading(reachable, live, lambda: 1.0)
    watch_loading(reachable, live, lambda: 1.0)
    await until(lambda: not live.statuses({"spark": target}, 1.0)["spark"].loading)
    return live


async def test_it_is_asked_for_its_health_by_one_alone_until_it_no_longer_says_that_it_loads():
    adapter = Asked((503, LOADING), (200, b'{"status":"ok"}'))

    await watch(adapter)

    assert adapter.paths == [("GET", "/health")] * 2


async def test_no_health_route_a_lost_target_and_a_key_that_only_callers_have_end_the_wait():
    for answer in ((404, b"no such route"), UpstreamUnreachable("spark", "gone"), CallerKey("whose?")):
        adapter = Asked(answer)

        await watch(adapter)

        assert len(adapter.paths) == 1


def test_a_load_that_nobody_asks_about_is_believed_for_five_seconds():
    live, targets = LiveStatistics(), {"spark": make_target()}
    live.keep_loading(targets["spark"], "Loading model", 10.0)

    assert live.statuses(targets, 14.9)["spark"].closed_seconds > 0
    assert live.statuses(targets, 15.1)["spark"].closed_seconds == 0


@pytest.mark.parametrize("after", [{}, {"spark": make_target(window_tokens=9_000)}])
async def test_a_target_that_a_new_config_lacks_or_changes_is_asked_no_more(after):
    live, target = LiveStatistics(), make_target()
    live.statuses({"spark": target}, 0.0)
    adapter = Asked((503, LOADING), (503, LOADING))
    watch_loading(replace(reach(target), adapter=adapter), live, lambda: 1.0)

    live.statuses({"sage": make_target("sage"), **after}, 0.5)
    await until(lambda: not live._live["spark"].is_awaited)

    assert len(adapter.paths) == 1
