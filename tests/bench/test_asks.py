"""The asks of the benchmarks are not those that the reading of words is trained on."""

from tests.bench.asks import LONG, QUICK
from tests.bench.developers import Size, plan_turns
from tests.bench.processes import HERE
from tests.lab.items import load_rows


def test_no_ask_of_the_benchmarks_is_in_a_file_that_the_reading_is_trained_on():
    rows = load_rows((HERE.parent / "lab").glob("*.jsonl"))
    trained = {row.item.prompt.strip().lower() for row in rows}

    assert len(trained) > 1_000
    assert trained.isdisjoint(ask.lower() for ask in (*QUICK, *LONG))


def test_people_ask_for_quick_and_long_things_as_they_are_labelled():
    turns = [turn for own in plan_turns(8, 20, Size(2, 400), Size(12, 3_600), 1) for turn in own]

    assert {turn.words for turn in turns if turn.is_long} <= set(LONG)
    assert {turn.words for turn in turns if not turn.is_long} <= set(QUICK)
    assert 0.1 < sum(turn.is_long for turn in turns) / len(turns) < 0.5
