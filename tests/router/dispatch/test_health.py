"""Asking a target that loads or rests whether it is ready. The way of whole requests is in tests/walk/test_loading.py."""

import asyncio
from dataclasses import replace

import pytest

from router.contract.errors import CallerKey, UpstreamUnreachable
from router.dispatch.health import watch_health
from router.dispatch.live.statistics import LiveStatistics
from tests.tools.scripted import reach
from tests.tools.values import make_target
from tests.tools.waiting import until

NO_ROUTE = (404, b"no such route")
GONE = UpstreamUnreachable("spark", "gone")
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
    watch_health(reachable, live, lambda: 1.0)
    watch_health(reachable, live, lambda: 1.0)
    await until(lambda: not live.statuses({"spark": target}, 1.0)["spark"].loading)
    return live


async def test_it_is_asked_for_its_health_by_one_alone_until_it_no_longer_says_that_it_loads():
    adapter = Asked((503, LOADING), (200, b'{"status":"ok"}'))

    await watch(adapter)

    assert adapter.paths == [("GET", "/health")] * 2


async def test_no_health_route_a_lost_target_and_a_key_that_only_callers_have_end_the_wait():
    for answers in ([NO_ROUTE, NO_ROUTE], [UpstreamUnreachable("spark", "gone")], [CallerKey("whose?")]):
        adapter = Asked(*answers)

        await watch(adapter)

        assert adapter.paths == [("GET", "/health"), ("GET", "/models")][: len(answers)]


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
    watch_health(replace(reach(target), adapter=adapter), live, lambda: 1.0)

    live.statuses({"sage": make_target("sage"), **after}, 0.5)
    await until(lambda: not live._live["spark"].is_awaited)

    assert len(adapter.paths) == 1


async def rest(
    adapter, *, failed_with: str = UpstreamUnreachable.code, health_path: str = "/health", clock=lambda: 1.0
) -> LiveStatistics:
    """Have a target that rests after failures asked until nothing is left to ask."""
    live, target = LiveStatistics(), make_target()
    live.statuses({"spark": target}, 0.0)
    for _ in range(5):
        live.of(target).circuit.fail(0.0, failed_with)
    watch_health(replace(reach(target), adapter=adapter, health_path=health_path), live, clock)
    await until(lambda: not live._live["spark"].is_awaited)
    return live


@pytest.mark.parametrize("away", [GONE, (500, b"engine is dead"), (503, b"not healthy")])
async def test_an_engine_that_was_away_rests_no_longer_once_it_answers(away):
    adapter = Asked(away, (200, b""))

    live = await rest(adapter)

    assert adapter.paths == [("GET", "/health")] * 2
    assert not live.rests(make_target())


async def test_an_engine_that_comes_back_loading_is_awaited_until_it_has_loaded():
    adapter = Asked(GONE, (503, LOADING), (503, LOADING), (200, b""))

    live = await rest(adapter)

    assert adapter.answers == []
    assert not live.rests(make_target())


async def test_an_engine_without_a_health_route_is_asked_for_its_models():
    adapter = Asked(GONE, NO_ROUTE, (200, b'{"data":[]}'))

    await rest(adapter)

    assert adapter.paths == [("GET", "/health"), ("GET", "/health"), ("GET", "/models")]


async def test_a_gateway_is_never_asked_for_a_health_that_may_cost_something():
    adapter = Asked(GONE, (404, b""))

    await rest(adapter, health_path="/models")

    assert adapter.paths == [("GET", "/models")] * 2


async def test_an_engine_that_was_there_all_along_rests_on_and_is_not_asked_again():
    adapter = Asked((200, b""))

    live = await rest(adapter, failed_with="upstream_refused")

    assert adapter.answers == []
    assert live.of(make_target()).circuit.is_open


@pytest.mark.parametrize("minutes", [1, 29])
async def test_an_engine_is_used_within_ten_seconds_of_its_return_however_long_it_was_away(monkeypatch, minutes):
    now, sleep = 0.0, asyncio.sleep

    class Away(Asked):
        def open_route(self, target, request, sink):
            self.answers = [GONE if now < minutes * 60 else (200, b"")]
            return super().open_route(target, request, sink)

    async def pass_time(seconds):
        nonlocal now
        now += seconds
        await sleep(0)

    monkeypatch.setattr("router.dispatch.health.asyncio.sleep", pass_time)
    live = await rest(adapter := Away(), clock=lambda: now)

    assert len(adapter.paths) > 20
    assert now - minutes * 60 < 10
    assert not live.rests(make_target())


async def test_an_engine_that_was_away_for_too_long_to_be_asked_about_is_asked_again_after_the_next_failure():
    now = iter((0.0, 1_801.0, 1_802.0, 1_803.0))
    live = await rest(never := Asked(), clock=lambda: next(now))
    assert (never.paths, live.rests(make_target())) == ([], True)

    watch_health(replace(reach(make_target()), adapter=Asked((200, b"")), health_path="/health"), live, lambda: next(now))
    await until(lambda: not live._live["spark"].is_awaited)

    assert not live.rests(make_target())


async def test_one_more_failure_of_an_engine_that_came_back_begins_another_rest():
    live = await rest(Asked((200, b"")))

    live.of(make_target()).circuit.fail(2.0, UpstreamUnreachable.code)

    assert live.rests(make_target())
