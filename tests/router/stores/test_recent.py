"""The last entries: how many, for how long, and for whom."""

from router.contract.caller import LOCAL
from router.contract.entry import COLUMNS
from router.stores.recent import RecentEntries, row_of
from tests.tools.kept import ATTEMPTS, explain_shortly, make_entry


def recall(recent: RecentEntries, name: str, caller=LOCAL):
    return recent.find(name, caller, explain_shortly)


def add(recent: RecentEntries, *entries) -> None:
    for entry in entries:
        recent.add(entry)


def test_a_row_has_the_values_of_its_columns_then_the_decision_the_attempts_and_the_texts():
    entry = make_entry("req_5", decision="{}", prompt_text="asked", answer_text="said")

    row = row_of(entry)

    assert dict(zip(COLUMNS, row, strict=False)) == {name: getattr(entry.line, name) for name in COLUMNS}
    assert row[len(COLUMNS) :] == ("{}", ATTEMPTS, "asked", "said")


def test_the_oldest_is_forgotten_after_512_others_or_an_hour():
    by_count, by_age = RecentEntries(), RecentEntries()
    add(by_count, *(make_entry(f"req_{number}") for number in range(513)))
    add(by_age, make_entry("old", at=0.0), make_entry("new", at=3_601.0))

    assert [recall(by_count, name) is None for name in ("req_0", "req_1")] == [True, False]
    assert [recall(by_age, name) is None for name in ("old", "new")] == [True, False]
