"""Logs and ledger joined: each turn once, with what each of the two knows of it."""

from dataclasses import replace

from router.contract.words import Tier
from router.past.cases import Case, RegretSign, join
from router.past.history import Size


def told(at: float | None, size: Size = Size.QUICK, session: str = "codex:s") -> Case:
    return Case(session, "codex", at, size, words="fix it")


def recorded(at: float, size: Size = Size.QUICK, *regrets: RegretSign, session: str = "codex:s") -> Case:
    return Case(session, "codex", at, size, regrets, was=Tier.FAST)


def test_a_turn_of_both_is_told_once_and_the_persons_wish_outweighs_the_work():
    (case,) = join([told(100.0)], [recorded(101.0, Size.LONG, RegretSign.MOVED_UP)])

    assert (case.words, case.was, case.size, case.regrets) == ("fix it", Tier.FAST, Size.LONG, (RegretSign.MOVED_UP,))


def test_without_a_wish_the_log_knows_better_what_the_work_was():
    (case,) = join([told(100.0, Size.LONG)], [recorded(99.0)])

    assert case.size is Size.LONG


def test_the_nearest_turn_is_the_same_turn():
    cases = list(join([told(100.0), told(110.0)], [recorded(109.0, Size.LONG, RegretSign.OVERRODE), recorded(101.0)]))

    assert [case.size for case in cases] == [Size.QUICK, Size.LONG]


def test_turns_of_one_side_alone_are_all_there():
    cases = list(join([told(None), told(500.0), told(100.0, session="codex:other")], [recorded(100.0), recorded(900.0)]))

    assert len(cases) == 5


def test_a_turn_that_was_called_misjudged_brings_its_size_and_weight():
    marked = replace(recorded(101.0, Size.LONG), weight=10)

    (case,) = join([told(100.0, Size.QUICK)], [marked])

    assert (case.size, case.weight, case.words) == (Size.LONG, 10, "fix it")
