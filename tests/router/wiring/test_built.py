"""What is done for a house around its requests: what it learns, and what is loaded early."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from router.contract.economics import ASSUMED_RATES
from router.contract.target import WorkRatio
from router.contract.words import Outcome
from router.house import House
from router.loop.tasks import spawn
from router.wiring.build import build_house, build_plan, build_state
from router.wiring.built import Built
from tests.conftest import SIMULATED
from tests.router.wiring.test_build import load, request, serve
from tests.tools.ledgers import keep_entry
from tests.tools.waiting import some_turns


async def test_what_the_ledger_shows_of_a_targets_work_is_learnt_by_the_live_figures(built):
    house = built.house
    for number in range(40):
        decided = await house.decide(request(f"req_{number}"))
        keep_entry(house, decided, outcome=Outcome.SERVED, output_tokens=4_000)
    await house.state.entries.close()
    assert house.state.live.statuses(house.plan.targets, 0.0)["simulated-fast"].ratio == WorkRatio()

    built.learn(built.ledger_path)

    assert house.state.live.statuses(house.plan.targets, 1.0)["simulated-fast"].ratio.output > 1


async def test_a_correction_is_learnt_as_a_failure_of_the_pair_that_served_the_turn_before(built):
    house = built.house
    first = [{"role": "user", "content": "fix the typo in the footer"}]
    corrected = [*first, {"role": "assistant", "content": "Fixed."}, {"role": "user", "content": "no, it is still wrong"}]
    for number in range(40):
        for name, messages in ((f"ask_{number}", first), (f"again_{number}", corrected)):
            await serve(house, request(name, messages=messages))
    await house.state.entries.close()

    built.learn(built.ledger_path)

    rates = house.state.live.statuses(house.plan.targets, 1.0)["simulated-fast"].failures["simulated-deep"]
    assert rates.turns >= 40
    assert rates.quick > ASSUMED_RATES.quick


def test_without_a_ledger_there_is_nothing_to_learn(tmp_path):
    state = build_state(load(SIMULATED, tmp_path), AsyncExitStack(), on_disk=False)
    house = House(build_plan(load(SIMULATED, tmp_path), state), state)

    Built(house).learn(None)
    Built(house).learn(tmp_path / "never-written.db")
    (tmp_path / "broken.db").write_text("not a database" * 100)
    Built(house).learn(tmp_path / "broken.db")

    assert state.live.statuses(house.plan.targets, 0.0)["simulated-fast"].ratio == WorkRatio()


class Loading:
    """An adapter with something to load."""

    def __init__(self, *_) -> None:
        self.is_warm = False

    def warm(self) -> None:
        self.is_warm = True


class Ready:
    """One with nothing to load."""


class Warming:
    def __init__(self, *adapters) -> None:
        self.plan = self
        self.dispatcher, self.adapters = self, adapters


def test_adapters_with_something_to_load_are_told_to_and_others_are_left_alone():
    costly = Loading()

    Built(Warming(costly, Ready())).warm()

    assert costly.is_warm


@pytest.mark.parametrize(
    ("given", "begun"),
    [
        ({}, {"warm", "watch_loop", "resume_jobs", "watch_keys", "keep_learning", "watch_troubles"}),
        ({"ledger_path": None}, {"warm", "watch_loop", "resume_jobs", "watch_keys", "watch_troubles"}),
    ],
)
async def test_what_is_done_around_requests_begins_once_each(monkeypatch, tmp_path, given, begun):
    seen = []
    for name in ("warm", "watch_loop", "resume_jobs"):
        monkeypatch.setattr(Built, name, lambda _, name=name: seen.append(name))
    for name in ("keep_learning", "watch_keys", "watch_troubles"):

        async def note(_, name=name):
            seen.append(name)

        monkeypatch.setattr(Built, name, note)

    built = Built(Warming(), given.pop("ledger_path", tmp_path / "ledger.db"))
    built.begin()
    await some_turns()

    assert sorted(seen) == sorted(begun)


async def test_closing_one_router_leaves_the_work_of_another_in_this_process_alone(tmp_path):
    (folder := tmp_path / "other").mkdir()
    first, other = build_house(load(SIMULATED, tmp_path)), build_house(load(SIMULATED, folder))
    first.begin()
    other.begin()
    own = spawn(asyncio.sleep(60), name="of the program")

    await first.close()

    assert not own.done()
    assert [task.get_name() for task in other._tasks if not task.done()] == ["learn", "watch troubles"]
    assert all(task.done() for task in first._tasks)
    own.cancel()
    await other.close()


async def test_a_router_without_a_ledger_marks_and_reads_no_file_of_the_config(tmp_path):
    built = build_house(load(SIMULATED, tmp_path), with_ledger=False)

    assert (built.ledger_path, built.ledger) == (None, None)
    await built.close()
