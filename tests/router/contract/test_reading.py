import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.features import HISTORY, MARKS, TABLE_SIZE, Features
from router.contract.reading import FORMAT, BadWeights, load_weights, read_weights, temper, write_weights

THRESHOLD = math.log(0.3 / 0.7)
ODDS = st.floats(-8, 8, allow_nan=False)


def make_file(table: dict[int, float] | None = None, **more) -> bytes:
    weights = [0.0] * TABLE_SIZE
    for place, weight in (table or {1: 1.27}).items():
        weights[place] = weight
    header = {
        "start": -0.5,
        "length": 0.0,
        "marks": {name: [0.0] * (len(edges) + 1) for name, edges in MARKS.items()},
        "history_start": 0.25,
        "history": {name: [0.0] * (len(edges) + 1) for name, edges in HISTORY.items()},
        "trained_on": {},
        **more,
    }
    return write_weights(header, weights)


def features(*pieces: int, **more) -> Features:
    return Features(pieces, (0,) * len(MARKS), 0.0, **more)


def test_words_add_up_over_the_root_of_their_number():
    weights = read_weights(make_file({1: 1.27, 2: -0.5}))

    assert weights.read(features(1)).odds == pytest.approx(-0.5 + 1.27)
    assert weights.read(features(1, 2, 3, 4)).odds == pytest.approx(-0.5 + (1.27 - 0.5) / 2, abs=0.01)
    assert weights.read(features()).odds == pytest.approx(-0.5)


def test_a_first_turn_has_no_history_to_add():
    weights = read_weights(make_file())

    assert weights.read(features(3)).history == 0.0
    assert weights.read(features(3, history=(0,) * len(HISTORY))).history == 0.25


def test_a_concepts_share_is_what_its_own_words_added():
    weights = read_weights(make_file({1: 1.27, 2: -0.5}))
    whole = features(1, 2, 3, 4, concepts=(("typo", (2,)), ("plan", (1, 3)), ("plan", (3,))))

    shares = weights.read_shares(whole)

    assert shares == pytest.approx({"typo": -0.25, "plan": 0.635}, abs=0.01)


@given(words=st.floats(-8, -1.6, allow_nan=False), history=ODDS)
def test_no_history_takes_clearly_quick_words_to_deep(words, history):
    assert temper(words, history) < THRESHOLD


@given(words=st.floats(0.5, 8, allow_nan=False), history=ODDS)
def test_no_history_takes_clearly_long_words_to_fast(words, history):
    assert temper(words, history) > THRESHOLD


@given(words=st.floats(-0.9, -0.4, allow_nan=False))
def test_open_words_follow_the_history(words):
    assert temper(words, -1.0) < THRESHOLD < temper(words, 1.0)


@given(words=ODDS, history=ODDS, more=st.floats(0, 3, allow_nan=False))
def test_longer_words_and_longer_histories_never_lower_the_odds(words, history, more):
    assert temper(words + more, history) >= temper(words, history) - 1e-9
    assert temper(words, history + more) >= temper(words, history) - 1e-9


def test_the_same_content_has_the_same_fingerprint():
    assert read_weights(make_file()).fingerprint == read_weights(make_file()).fingerprint
    assert read_weights(make_file()).fingerprint != read_weights(make_file({1: 1.0})).fingerprint


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not a header"),
        (b"{}", "not a header"),
        (b"{}\n" + bytes(TABLE_SIZE), "KeyError"),
        (b"[1]\n" + bytes(TABLE_SIZE), "incompatible weights file"),
        (b"nonsense\n", "incompatible weights file"),
        (b'{"format": 1}\n', f"format 1, and this version reads format {FORMAT}"),
        (make_file()[:-1], "damaged"),
        (make_file(marks={}), "KeyError"),
        (make_file(marks={name: [0.0] for name in MARKS}), "other lengths"),
    ],
)
def test_what_is_no_file_of_weights_is_refused(content, says):
    with pytest.raises(BadWeights, match=says):
        read_weights(content)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "bad").write_bytes(b"x\n")

    with pytest.raises(BadWeights, match="none: No such file"):
        load_weights(str(tmp_path / "none"))
    with pytest.raises(BadWeights, match="bad: incompatible weights file"):
        load_weights(str(tmp_path / "bad"))


@pytest.mark.parametrize("field", ["start", "length", "history_start"])
def test_weights_that_hold_what_is_no_number_are_refused(field):
    with pytest.raises(BadWeights, match="damaged"):
        read_weights(make_file(**{field: "nan"}))
