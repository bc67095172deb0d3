"""The ring of finished requests."""

from router.contract.facts import Recorded
from router.telemetry.ring import Kept, Ring, read_kept
from tests.tools.kept import make_entry


def test_the_ring_holds_the_newest_thousand_numbered_on_and_no_text():
    ring = Ring()
    take = ring.handlers()[Recorded]

    for number in range(1_200):
        take(None, Recorded(make_entry(f"req_{number}", prompt_text="secret")))

    assert len(ring.rows) == 1_000
    assert [number for number, _ in ring.rows] == list(range(201, 1_201))
    assert ring.rows[-1][1][0].id == "req_1199"
    assert {type(part).__name__ for _, held in ring.rows for part in held} == {"Line", "str"}


def test_a_ring_that_is_switched_on_again_begins_empty_and_numbers_on():
    ring = Ring()
    take = ring.handlers()[Recorded]
    take(None, Recorded(make_entry("req_1")))

    ring.start_again()
    take(None, Recorded(make_entry("req_2")))

    assert [number for number, _ in ring.rows] == [2]


def test_of_a_decision_that_cannot_be_read_nothing_is_known():
    assert read_kept('{"decided_by": "estimate", "v": 3}') == Kept("estimate")
    assert read_kept(None) == read_kept("{") == read_kept('{"decided_by": 7}') == Kept()
