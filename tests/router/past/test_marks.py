"""What marks teach: the marked ask and its kin move just over the line, and no other ask does."""

from dataclasses import replace

import pytest

from router.contract.features import HASHING
from router.contract.personal import PersonalTable
from router.contract.words import Tier
from router.past.cases import Sample
from router.past.history import Size
from router.past.marks import fit_table, merge, places_of

QUICK = [
    "fix the typo",
    "fix the typo in the repo",
    "fix the typo in security.md",
    "rename scan to scanner in the repo",
    "bump the version to 1.4.2",
    "what does git rebase do?",
    "run the tests",
    "update the readme",
    "remove the unused import in scan.py",
]
SCAN = "security scan the repo"
KIN = ["Security scan the repo.", "security scan the repo pls", "run a security scan", "do a security scan of the backend"]


def past(words: str, size: Size = Size.QUICK, at: float = 0.0, weight: int = 1) -> Sample:
    return Sample("s", at, 0.0, None, Tier.FAST, size, weight, words, places_of(words), "ann")


def marks_on(words: str, times: int = 1, *, is_long: bool = True) -> list[Sample]:
    return [past(words, Size.LONG if is_long else Size.QUICK, float(number), 10) for number in range(times)]


def teach(*turns: Sample, room: float = -3.0) -> PersonalTable:
    """All turns are this far above the line without the table."""
    return fit_table(turns, lambda turn: room, "weights")


def move(table: PersonalTable, words: str) -> float:
    return table.weigh(places_of(words))


@pytest.mark.parametrize("others", [[], [past(words) for words in QUICK]])
def test_sixteen_marks_bring_an_ask_and_its_kin_over_the_line_and_leave_quick_asks(others):
    table = teach(*marks_on(SCAN, 16), *others)

    assert [(kind.marks, kind.callers) for kind in table.kinds] == [(16, ("ann",))]
    assert move(table, SCAN) > 3.0
    assert min(move(table, words) for words in KIN) > 2.0
    assert max(move(table, words) for words in QUICK) < 2.0


@pytest.mark.parametrize("room", [-4.5, -3.0, -1.0, -0.1])
def test_one_mark_carries_its_ask_just_over_the_line(room):
    assert 0.0 < move(teach(*marks_on(SCAN), room=room), SCAN) + room < 2.5


@pytest.mark.parametrize("room", [5.0, 2.0])
def test_a_mark_for_fast_does_the_same_downwards(room):
    assert -2.5 < move(teach(*marks_on(SCAN, is_long=False), room=room), SCAN) + room < 0.0


def test_every_doubling_of_the_marks_carries_an_ask_half_a_step_further():
    moves = [move(teach(*marks_on(SCAN, times), room=-1.0), SCAN) for times in (1, 2, 4, 16)]

    assert moves == pytest.approx([2.5, 3.0, 3.5, 4.5], abs=0.2)


def test_turns_like_it_that_were_quick_after_all_hold_it_back():
    contrary = [past(KIN[1], at=9.0)] * 200

    assert move(teach(*marks_on(SCAN), *contrary), SCAN) < move(teach(*marks_on(SCAN)), SCAN) / 2


def test_marks_that_are_alike_are_one_kind_and_what_they_share_says_most():
    table = teach(*(mark for words in (SCAN, *KIN) for mark in marks_on(words)))

    (kind,) = table.kinds
    shared, once = places_of("security")[0], places_of("backend")
    assert kind.marks == 5
    assert max(kind.places.get(place, 0.0) for place in once) < max(kind.places.values()) == kind.places[shared]


def test_marks_on_different_asks_are_kinds_of_their_own():
    table = teach(*marks_on(SCAN), *marks_on("translate every page of the handbook"), *marks_on("deploy", is_long=False))

    assert len(table.kinds) == 3
    assert move(table, "deploy") < 0 < move(table, SCAN)


def test_without_marks_there_is_nothing_to_know():
    assert teach(*(past(words) for words in QUICK)) == PersonalTable("weights")


@pytest.mark.parametrize("words", ["", "go on", "thanks"])
def test_words_that_do_not_say_what_is_to_be_done_have_no_place(words):
    assert places_of(words) == ()


def with_requests(marks: list[Sample], first: int) -> list[Sample]:
    return [replace(mark, request=f"req_{number}") for number, mark in enumerate(marks, first)]


def test_a_kind_stays_until_its_marks_are_fitted_again_taken_back_or_contradicted():
    scan = teach(*with_requests(marks_on(SCAN, 4), 1))
    other = teach(*with_requests(marks_on("bump the zanzibar version", 2), 11))
    opposite = teach(*with_requests(marks_on(SCAN, 4, is_long=False), 21), room=3.0)
    old = merge(PersonalTable("w"), scan, {f"req_{number}" for number in range(1, 5)}, (), 7.0).table

    kept = merge(old, other, {"req_11", "req_12"}, (), 8.0)
    fewer = merge(old, other, {"req_11", "req_12"}, {"req_1", "req_2"}, 8.0)
    dropped = merge(old, other, {"req_11", "req_12"}, {"req_1", "req_2", "req_3", "req_4"}, 8.0)
    turned = merge(old, opposite, {"req_21"}, (), 8.0)
    again = merge(kept.table, scan, {"req_1", "req_2", "req_3", "req_4"}, (), 9.0)

    assert [(kind.marks, kind.at) for kind in kept.table.kinds] == [(2, 8.0), (4, 7.0)]
    assert (kept.added, kept.kept, kept.dropped) == (1, 1, 0)
    assert [kind.marks for kind in fewer.table.kinds] == [2, 2]
    assert (dropped.kept, dropped.dropped, len(dropped.table.kinds)) == (0, 1, 1)
    assert (turned.kept, turned.dropped) == (0, 1)
    assert [(kind.marks, kind.at) for kind in again.table.kinds] == [(4, 7.0), (2, 8.0)], "learned again, it keeps its day"


def test_the_places_of_words_are_those_of_this_hashing():
    """Raise `HASHING` when this changes: tables and marks of before mean other words then."""
    assert (HASHING, sorted(places_of(SCAN))) == (
        1,
        [33289, 48127, 48348, 66327, 93670, 100537, 188997, 238827, 242606, 251329, 253789],
    )
