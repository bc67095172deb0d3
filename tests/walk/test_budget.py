"""The bytecode budget of a request, as stated in docs/how-it-works/budget.md."""

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.bench.bytecodes import CASES, FIFTY_TARGETS, MANY_RULES, TEN_TARGETS, WITH_A_KEY, Counts, count_case, count_writer

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-it-works" / "budget.md").read_text()
MARGIN = 1.02
MOST_FOR_A_KEY = 110
MOST_FOR_TARGETS = {TEN_TARGETS: 0.12, FIFTY_TARGETS: 0.6}
MOST_FOR_RULES = 100
KINDS = {kind: (int(whole.replace(",", "")), int(before.replace(",", "")))
         for kind, whole, before in re.findall(r"^\| ([\w, ]+) \| ([\d,]+) \| ([\d,]+) \|$", PAGE, re.MULTILINE)}  # fmt: skip
ROOMS = {room: (int(whole.replace(",", "")), int(before.replace(",", "")))
         for room, whole, before in re.findall(r"^\| `([\w/]+)` \|.*\| ([\d,]+) \| ([\d,]+) \|$", PAGE, re.MULTILINE)}  # fmt: skip

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the budget is in bytecodes of Python 3.11")


@pytest.fixture(scope="module")
def counted(tmp_path_factory) -> dict[str, Counts]:
    return {kind: count_case(kind, tmp_path_factory.mktemp("ledger")) for kind in CASES}


def test_the_page_has_a_budget_for_every_kind_of_request():
    assert set(KINDS) == set(CASES)
    assert len(ROOMS) > 10


@pytest.mark.parametrize("kind", CASES)
def test_a_request_keeps_its_budget(counted, kind):
    whole, before = KINDS[kind]

    assert counted[kind].total <= whole * MARGIN, counted[kind].by_function().most_common(40)
    assert counted[kind].before_write <= before * MARGIN, counted[kind].by_function().most_common(40)


def test_every_room_keeps_its_budget(counted):
    for part, by_room in enumerate(rooms_of(counted)):
        assert {room: count for room, count in by_room.items() if count > ROOMS.get(room, (0, 0))[part] * MARGIN + 5} == {}


def test_a_budget_is_no_more_than_what_is_needed(counted):
    """Slack in a budget would let cost creep back."""
    for part, by_room in enumerate(rooms_of(counted)):
        assert {room: most[part] for room, most in ROOMS.items() if most[part] > by_room[room] * 1.15 + 25} == {}
        assert sum(most[part] for most in ROOMS.values()) <= KINDS["600 B"][part] * MARGIN


def rooms_of(counted) -> tuple[Counter[str], Counter[str]]:
    """The first row by room: all of it, and what comes before the write."""
    counts = counted["600 B"]
    return counts.by_room(), counts.before.by_room()


def test_a_key_without_limits_adds_little(counted):
    assert 0 < counted[WITH_A_KEY].total - counted["600 B"].total <= MOST_FOR_A_KEY, counted[WITH_A_KEY].by_function()


def more_before_write(counted, kind: str) -> int:
    """A kind's cost beyond the first row: targets and rules are all weighed before the write."""
    return counted[kind].before_write - counted["600 B"].before_write


@pytest.mark.parametrize("kind", MOST_FOR_TARGETS)
def test_targets_that_lose_add_little(counted, kind):
    most = MOST_FOR_TARGETS[kind] * KINDS["600 B"][0]

    assert 0 < more_before_write(counted, kind) <= most, counted[kind].by_function().most_common(40)


def test_rules_add_little_for_words_that_were_judged_before(counted):
    assert 0 < more_before_write(counted, MANY_RULES) <= MOST_FOR_RULES, counted[MANY_RULES].by_function().most_common(40)


def test_the_ledgers_thread_keeps_its_budget(tmp_path):
    (most,) = re.findall(r"^\| the ledger's thread \| (\d+) \|$", PAGE, re.MULTILINE)

    assert int(most) / 1.15 < count_writer(tmp_path) <= int(most) * MARGIN


def test_the_counter_counts():
    """Code off the road costs nothing, and the road is counted."""
    assert "router/edge" in ROOMS
    assert "router/past" not in ROOMS
