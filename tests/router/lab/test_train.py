"""Fitting: what is learnt from which rows, what has no say, and what the file tells of it."""

import math
from dataclasses import replace

import pytest
from threadpoolctl import threadpool_limits

from router.contract.reading import read_weights
from router.lab.items import ASKS, COMMITS, MEANING, VAGUE, Item, Remark
from router.lab.train import CannotFit, Fitted, Row, fingerprint_of, leave_out_fitted, read_rows
from router.lab.train import fit as fit_all

QUICK = ("rename {} to b", "fix the typo in {}", "what does {} do?", "bump the version of {}", "add a comment to {}")
LONG = (
    "implement {} from scratch with tests",
    "refactor the whole of {} and all callers",
    "migrate {} to the new framework",
    "build a new service for {} with docs",
    "rewrite the {} pipeline end to end",
)


def fit(rows, name, report) -> Fitted:
    return fit_all(rows, [], name, report)


def score_out_of_fold(rows, report) -> list[float]:
    return fit(rows, "x", report).odds


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Threads that wait for each other make a small fit several times slower on a busy machine."""
    import sklearn.linear_model  # noqa: F401  loaded before its threads are limited; it costs 1.6 s, so not by every worker

    with threadpool_limits(1):
        yield


def write_asks(count: int = 20) -> list[Item]:
    """Quick and long asks by turns, in two groups."""
    return [
        Item(
            source=ASKS,
            repo="asks",
            prompt=(LONG if number % 2 else QUICK)[number // 2 % 5].format(f"part{number}"),
            is_long=bool(number % 2),
            is_clear=True,
            has_tools=True,
            group=f"asks {number // 2 % 2}",
            id=f"a{number}",
            kind=ASKS,
        )
        for number in range(count)
    ]


def write_turns(count: int = 20) -> list[Item]:
    """Later turns whose words say nothing."""
    return [
        Item(
            source="agent_session_x",
            repo="tandem",
            prompt=f"now part{number}",
            is_long=bool(number % 2),
            is_clear=True,
            has_tools=True,
            prior_turns=2,
            group=f"asks {number // 2 % 2}",
            id=f"t{number}",
        )
        for number in range(count)
    ]


def read_one(prompt: str, **more) -> Row:
    (row,) = read_rows([Item("test", "test", prompt, is_long=False, is_clear=True, **more)])
    return row


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return read_rows([*write_asks(), *write_turns()])


@pytest.fixture(scope="module")
def told() -> list[str]:
    """What the fit reports."""
    return []


@pytest.fixture(scope="module")
def fitted(rows, told):
    return fit(rows, "abc", told.append)


@pytest.fixture(scope="module")
def asks() -> list[Row]:
    return read_rows(write_asks())


@pytest.fixture(scope="module")
def odds(asks) -> list[float]:
    """What the words of each ask have by a fit without its group."""
    return score_out_of_fold(asks, lambda _: None)


def test_the_same_rows_give_the_same_bytes(rows, fitted):
    assert fit(rows, "abc", lambda _: None) == fitted


def test_words_that_were_not_fitted_are_told_apart_by_those_that_were(fitted):
    weights = read_weights(fitted.content)

    long, quick = (read_one(text).features for text in ("implement the importer from scratch with tests", "fix the typo in it"))
    assert weights.read_size(long, is_later=False) > 0
    assert weights.read_size(quick, is_later=False) < -0.5


def test_complaints_are_told_from_other_remarks(rows):
    said = [("still broken {}", True), ("same error in {}", True), ("thanks, {} works", False), ("now add {}", False)] * 8
    remarks = [Remark(text.format(f"part{n}"), "fix it", bad, f"g{n % 3}") for n, (text, bad) in enumerate(said)]

    fitted = fit_all(rows, remarks, "abc", lambda _: None)
    weights = read_weights(fitted.content)

    assert fitted.are_heard == [remark.is_complaint for remark in remarks]
    assert weights.wrong.read(read_one("still broken again").features) > weights.wrong_above
    assert weights.wrong.read(read_one("thanks").features) < weights.wrong_above


def test_without_remarks_no_complaint_is_ever_heard(fitted):
    weights = read_weights(fitted.content)

    assert weights.wrong.read(read_one("still broken").features) < weights.wrong_above


def test_words_that_point_back_are_told_from_asks(rows):
    vague = [
        Item(VAGUE, VAGUE, text, False, True, group="v", kind=VAGUE) for text in ("go on", "do it", "yes", "the second one")
    ]
    weights = read_weights(fit([*rows, *read_rows(vague)], "abc", lambda _: None).content)

    assert weights.vague.read(read_one("yes, do it").features) > 0 > weights.vague.read(read_one("fix the typo in x").features)


def test_the_sum_is_honest_on_real_prompts():
    real = [replace(item, kind=MEANING, is_long=number % 4 == 1) for number, item in enumerate(write_asks(40))]
    fitted = fit(read_rows(real), "abc", lambda _: None)
    chances = [1 / (1 + math.exp(-value)) for value in fitted.odds]

    assert sum(chances) == pytest.approx(sum(item.is_long for item in real), abs=0.5)


def test_the_file_says_what_it_was_fitted_to(fitted):
    assert read_weights(fitted.content).trained_on == {
        "data": "abc",
        "items": 40,
        "kinds": {"agent_session_x": 20, "asks: first asks with tools": 20},
        "remarks": 0,
    }


def test_there_are_odds_for_every_row(rows, fitted):
    assert len(fitted.odds) == len(rows)


def test_every_fold_is_reported(told, fitted):
    assert [line for line in told if "fold" in line] == [f"words: fold {number} of 6" for number in range(1, 7)]


def test_the_labels_of_a_group_have_no_say_in_its_own_odds(asks, odds):
    group = asks[0].item.group
    turned = [replace(row, item=replace(row.item, is_long=row.item.is_long is not (row.item.group == group))) for row in asks]

    found = score_out_of_fold(turned, lambda _: None)

    own = [index for index, row in enumerate(asks) if row.item.group == group]
    others = [index for index in range(len(asks)) if index not in own]
    assert [found[index] for index in own] == [odds[index] for index in own]
    assert all(found[index] * odds[index] < 0 for index in others), "the other group has learnt the opposite"


def wrong_rows(**change) -> list[Row]:
    """The same asks once more, with the opposite labels."""
    return read_rows([replace(item, is_long=not item.is_long, **change) for item in write_asks()])


def test_what_is_neither_quick_nor_long_is_not_fitted(asks, odds):
    found = score_out_of_fold([*asks, *wrong_rows(is_clear=False)], lambda _: None)

    assert found[: len(asks)] == odds


def test_the_work_that_followed_is_not_fitted_where_it_is_known_what_the_words_meant(asks):
    work = wrong_rows(kind="", source="agent_session_x")
    meant = [replace(row, item=replace(row.item, kind=MEANING)) for row in asks]

    found = score_out_of_fold([*meant, *work], lambda _: None)

    assert found[: len(asks)] == score_out_of_fold(meant, lambda _: None)


def test_an_item_of_weight_three_is_fitted_like_three_of_them(asks):
    heavy = [replace(asks[0], item=replace(asks[0].item, weight=3.0)), *asks[1:]]
    thrice = [*asks, asks[0], asks[0]]

    found = score_out_of_fold(heavy, lambda _: None)

    assert found == pytest.approx(score_out_of_fold(thrice, lambda _: None)[: len(asks)], abs=0.02)


def test_commits_have_no_say(asks, odds):
    found = score_out_of_fold([*asks, *wrong_rows(kind=COMMITS)], lambda _: None)

    assert found[: len(asks)] == odds


def test_an_item_without_words_is_left_out():
    items = write_asks(4)

    rows = read_rows([items[0], replace(items[1], prompt="  "), items[2]])

    assert [row.item.id for row in rows] == ["a0", "a2"]
    assert [row.label for row in read_rows(items)] == [0.0, 1.0, 0.0, 1.0]


def test_words_that_were_fitted_judge_nothing_whatever_stands_around_them():
    fitted, judges = write_asks(4), write_asks(6)

    left = leave_out_fitted(fitted, [replace(item, prompt=f"  {item.prompt}\n", repo="another") for item in judges])

    assert [item.id for item in left] == ["a4", "a5"]


def test_a_fingerprint_is_of_all_bytes_in_their_order(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"1")
    two.write_bytes(b"2")

    first = fingerprint_of([one, two])

    assert first == fingerprint_of([one, two])
    assert first != fingerprint_of([two, one])
    two.write_bytes(b"3")
    assert first != fingerprint_of([one, two])


def test_rows_of_which_only_one_label_counts_cannot_be_fitted():
    turns = write_turns()
    meant_quick = [replace(item, kind=MEANING, is_long=False) for item in turns]

    with pytest.raises(CannotFit, match="both quick and long"):
        fit(read_rows([*turns, *meant_quick]), "x", lambda _: None)
