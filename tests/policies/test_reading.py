import pytest

from policies.reading import COLUMNS, FORMAT, TABLES, BadWeights, load_weights, read_weights, write_weights
from router.contract.features import MARKS, TABLE_SIZE, Features, Offer


def make_file(table: dict[int, float] | None = None, later: dict[int, float] | None = None, **more) -> bytes:
    own = {"start": -0.5, "length": 0.0, "marks": {name: [0.0] * (len(edges) + 1) for name, edges in MARKS.items()}}
    tables = {name: (own, fill({}, size)) for name, size in TABLES.items()}
    tables["first"] = ({**own, **more.pop("first", {})}, fill(table or {1: 1.27}))
    tables["later"] = (own, fill(later or {}))
    turn = {"start": 0.0, "columns": {name: float(name == "words") for name in COLUMNS}}
    return write_weights({"turn": turn, "trained_on": {}, **more}, tables)


def fill(places: dict[int, float], size: int = TABLE_SIZE) -> list[float]:
    weights = [0.0] * size
    for place, weight in places.items():
        weights[place] = weight
    return weights


def features(*pieces: int, **more) -> Features:
    return Features(pieces, (0,) * len(MARKS), 0.0, **more)


def test_words_add_up_over_the_root_of_their_number():
    words = read_weights(make_file({1: 1.27, 2: -0.5})).first

    assert words.read(features(1)) == pytest.approx(-0.5 + 1.27)
    assert words.read(features(1, 2, 3, 4)) == pytest.approx(-0.5 + (1.27 - 0.5) / 2, abs=0.01)
    assert words.read(features()) == pytest.approx(-0.5)


def test_first_turns_and_later_ones_have_a_table_each():
    weights = read_weights(make_file({1: 1.27}, later={1: -0.4}))

    assert weights.read_size(features(1), is_later=False) == pytest.approx(-0.5 + 1.27, abs=0.01)
    assert weights.read_size(features(1), is_later=True) == pytest.approx(-0.5 - 0.4, abs=0.01)


def test_the_last_ask_is_a_column_as_far_as_the_words_point_back_and_nothing_was_offered():
    weights, offer = read_weights(make_file()), Offer(features(1), number=0, is_question=True)
    alone, asked, offered = (
        dict(zip(COLUMNS, weights.read_values(features(1), 0.5, *came), strict=True))
        for came in ((None, None), (None, -3.0), (offer, None))
    )

    assert asked["ask_before"] == -1.5
    assert {**asked, "ask_before": 0.0} == alone
    assert (offered["ask_before"], offered["reply_words"]) == (0.0, 0.5 * alone["words"])


def test_a_concepts_share_is_what_its_own_words_added():
    weights = read_weights(make_file({1: 1.27, 2: -0.5}))
    whole = features(1, 2, 3, 4, concepts=(("typo", (), 2), ("plan", (1,), 3), ("plan", (), 3)))

    assert weights.read_shares(whole, is_later=False) == pytest.approx({"typo": -0.25, "plan": 0.635}, abs=0.01)


def test_the_same_content_has_the_same_fingerprint():
    assert read_weights(make_file()).fingerprint == read_weights(make_file()).fingerprint
    assert read_weights(make_file()).fingerprint != read_weights(make_file({1: 1.0})).fingerprint


@pytest.mark.parametrize(
    ("write", "says"),  # written by the test: a whole file takes a third of a second, which every collection would wait for
    [
        (lambda: b"", "not a header"),
        (lambda: b"{}", "not a header"),
        (lambda: b"{}\n" + bytes(TABLE_SIZE), "KeyError"),
        (lambda: b"[1]\n" + bytes(TABLE_SIZE), "incompatible weights file"),
        (lambda: b"nonsense\n", "incompatible weights file"),
        (lambda: b'{"format": 1}\n', f"format 1, and this version reads format {FORMAT}"),
        (lambda: make_file()[:-1], "damaged"),
        (lambda: make_file(first={"marks": {}}), "KeyError"),
        (lambda: make_file(first={"marks": {name: [0.0] for name in MARKS}}), "other lengths"),
        (lambda: make_file(first={"start": "none"}), "start is not a number"),
    ],
)
def test_what_is_no_file_of_weights_is_refused(write, says):
    content = write()

    with pytest.raises(BadWeights, match=says):
        read_weights(content)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "bad").write_bytes(b"x\n")

    with pytest.raises(BadWeights, match="none: No such file"):
        load_weights(str(tmp_path / "none"))
    with pytest.raises(BadWeights, match="bad: incompatible weights file"):
        load_weights(str(tmp_path / "bad"))


@pytest.mark.parametrize("start", ["nan", "inf"])
def test_weights_that_hold_what_is_no_number_are_refused(start):
    with pytest.raises(BadWeights, match="not a number"):
        read_weights(make_file(first={"start": float(start)}))


def test_lists_that_hold_what_is_no_number_are_refused():
    marks = {name: ["nan"] * (len(edges) + 1) for name, edges in MARKS.items()}

    with pytest.raises(BadWeights, match="damaged"):
        read_weights(make_file(first={"marks": marks}))
