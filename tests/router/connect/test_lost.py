"""Taking ours out by its address and its values."""

import json

import pytest

from router.connect.change import FORMATS
from router.connect.lost import take_without_record
from router.connect.pointing import address_pattern

ADDRESS = address_pattern("http://127.0.0.1:4000")
VALUES = {
    "model": "auto",
    "env": {"URL": "http://127.0.0.1:4000", "WINDOW": "100"},
    "status": {"command": "x"},
    "list": [{"a": 1}],
}
TIERS = frozenset({"auto", "fast"})


def take(text: str, values: dict = VALUES) -> str | None:
    return take_without_record("json", FORMATS["json"], text, {"values": json.dumps(values)}, TIERS, ADDRESS)[0]


@pytest.mark.parametrize(
    ("found", "left"),
    [
        (VALUES, None),
        ({"model": "fast", "env": {"URL": "http://localhost:4000/", "WINDOW": "7"}}, None),
        (
            {"model": "opus", "env": {"URL": "http://elsewhere", "MINE": "1"}},
            {"model": "opus", "env": {"URL": "http://elsewhere", "MINE": "1"}},
        ),
        ({"status": {"command": "tandem --url http://127.0.0.1:4000"}, "mine": 1}, {"mine": 1}),
        ({"list": [{"b": 2}, {"a": 1}, {"url": "http://127.0.0.1:4000"}]}, {"list": [{"b": 2}]}),
        ({"list": "text", "env": []}, {"list": "text", "env": []}),
    ],
)
def test_ours_goes_and_all_else_stays(found, left):
    text = take(json.dumps(found, indent=2))

    assert (None if text is None else json.loads(text)) == left


def test_an_object_with_our_name_goes_whole():
    text = take('{"provider": {"tandem": {"x": 1}, "own": {}}}', {"provider": {"tandem": {"y": 2}}})

    assert json.loads(text) == {"provider": {"own": {}}}


def test_a_sign_of_ours_goes_and_one_of_the_clients_own_stays():
    for text, left in (("by us", None), ("1", "1")):
        assert take_without_record("flag", FORMATS["flag"], text, {"content": "by us"}, TIERS, ADDRESS) == (left, ())


def test_marked_blocks_need_no_record():
    text = FORMATS["shell"].put("export A=1\n", {"lines": "export B=2"}).text

    assert take_without_record("shell", FORMATS["shell"], text, {}, TIERS, ADDRESS) == ("export A=1\n", ())
