"""The personal table: what is like a kind moves with it, what is not stays, and a file of somebody else's is refused."""

import json

import pytest

from router.contract.features import TABLE_SIZE
from router.contract.personal import (
    BadTable,
    Kind,
    PersonalTable,
    TableUnreadable,
    load_personal,
    read_personal,
    write_personal,
)

KIND = Kind(4.0, {1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0}, marks=2, callers=("ann",))
OTHER = Kind(-3.0, {7: 1.0, 8: 1.0})
TABLE = PersonalTable("abc", (KIND, OTHER), {4: 0.1, 9: 0.1})


def test_the_same_ask_gets_all_that_its_kind_says():
    assert TABLE.weigh((1, 2, 3, 4)) == 4.0
    assert TABLE.weigh((8, 7)) == -3.0


def test_the_less_alike_an_ask_is_the_less_it_moves_until_it_stays():
    moved = [TABLE.weigh(pieces) for pieces in ((1, 2, 3, 4), (1, 2, 20), (1, 2, 20, 21, 22), (1, 20, 21, 22, 23, 24))]

    assert moved == sorted(moved, reverse=True)
    assert 0.0 < moved[2] < moved[1] < 4.0
    assert moved[3] == 0.0


def test_an_ask_that_shares_nothing_with_any_kind_stays():
    assert TABLE.weigh((20, 21)) == 0.0
    assert TABLE.weigh(()) == 0.0
    assert PersonalTable("abc").weigh((1, 2)) == 0.0


def test_what_nearly_every_ask_has_makes_no_ask_less_alike():
    assert TABLE.likeness((1, 2, 9))[0] > TABLE.likeness((1, 2, 20))[0]


def test_a_table_is_the_same_after_it_was_written_and_read():
    assert read_personal(write_personal(TABLE)) == TABLE


def test_where_there_is_no_file_there_is_no_table(tmp_path):
    assert load_personal(str(tmp_path / "none.json")) is None


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"weights": None, "kinds": None},
        {"kinds": [{"log_odds": 99, "places": {}, "marks": 1, "callers": []}]},
        {"kinds": [{"log_odds": "nan", "places": {}, "marks": 1, "callers": []}]},
        {"kinds": [{"log_odds": 1, "places": {str(TABLE_SIZE): 1}, "marks": 1, "callers": []}]},
        {"kinds": [{"log_odds": 1, "places": {"-1": 1}, "marks": 1, "callers": []}]},
        {"kinds": [{"log_odds": 1, "places": {"1": -1}, "marks": 1, "callers": []}]},
        {"common": {"1": "much"}},
        {"common": []},
    ],
)
def test_what_is_no_table_of_ours_is_refused(change):
    content = {**json.loads(write_personal(TABLE)), **change}

    with pytest.raises(BadTable):
        read_personal(json.dumps(content).encode())


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"7", b"{}", b'{"format": 1}', b" " * (1 << 20) + b" "])
def test_a_file_of_another_kind_is_refused_by_its_name(tmp_path, content):
    path = tmp_path / "personal.json"
    path.write_bytes(content)

    with pytest.raises(BadTable, match="personal.json: "):
        load_personal(str(path))


def test_a_table_that_may_be_there_but_cannot_be_read_is_not_taken_for_none(tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "away" / "personal.json")

    for name in ("", "link.json", "away/personal.json"):
        with pytest.raises(TableUnreadable):
            load_personal(str(tmp_path / name))
