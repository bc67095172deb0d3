"""Fitting: what is learnt from which rows, what has no say, and what the file tells of it."""

import sys
from dataclasses import replace

import pytest
import sklearn.linear_model  # noqa: F401  loaded before its threads are limited
from threadpoolctl import threadpool_limits

from router.contract.reading import read_weights
from router.lab.items import ASKS, COMMITS, MEANING, Item
from router.lab.train import CannotFit, Row, fingerprint_of, fit, leave_out_fitted, read_rows, score_out_of_fold

QUICK = ("rename {} to b", "fix the typo in {}", "what does {} do?", "bump the version of {}", "add a comment to {}")
LONG = (
    "implement {} from scratch with tests",
    "refactor the whole of {} and all callers",
    "migrate {} to the new framework",
    "build a new service for {} with docs",
    "rewrite the {} pipeline end to end",
)
AFTER_LONG, AFTER_QUICK = (20, 25), (1, 0)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Threads that wait for each other make a small fit several times slower on a busy machine."""
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
    """Later turns whose words say nothing, and of which long ones follow long ones."""
    return [
        Item(
            source="agent_session_x",
            repo="tandem",
            prompt=f"now part{number}",
            is_long=bool(number % 2),
            is_clear=True,
            has_tools=True,
            prior_turns=2,
            calls=AFTER_LONG if number % 2 else AFTER_QUICK,
            edits=(8, 8) if number % 2 else (0, 1),
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

    assert weights.read(read_one("implement the importer from scratch with tests", has_tools=True).features).odds > 0
    assert weights.read(read_one("fix the typo in the importer", has_tools=True).features).odds < -1


def test_the_finished_turns_say_what_the_words_leave_open(fitted):
    weights = read_weights(fitted.content)
    after_long = read_one("now the importer", has_tools=True, prior_turns=2, calls=AFTER_LONG, edits=(8, 8)).features
    after_quick = read_one("now the importer", has_tools=True, prior_turns=2, calls=AFTER_QUICK, edits=(0, 1)).features

    assert weights.read_history(after_quick) < 0 < weights.read_history(after_long)
    assert weights.read(after_quick).words == weights.read(after_long).words


def test_the_file_says_what_it_was_fitted_to(fitted):
    assert read_weights(fitted.content).trained_on == {
        "data": "abc",
        "items": 40,
        "kinds": {"agent_session_x": 20, "asks: first asks with tools": 20},
    }


def test_there_are_odds_for_every_row(rows, fitted):
    assert len(fitted.odds) == len(rows)


def test_without_later_turns_of_sessions_the_history_says_nothing(asks):
    weights = read_weights(fit(asks, "abc", lambda _: None).content)
    later = read_one("now the importer", has_tools=True, prior_turns=2, calls=AFTER_LONG, edits=(8, 8)).features

    assert weights.read_history(later) == 0.0


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


def test_commits_count_little(asks, odds):
    found = score_out_of_fold([*asks, *wrong_rows(kind=COMMITS)], lambda _: None)

    assert all(new * old > 0 for new, old in zip(found, odds, strict=False)), "they turn nothing round"
    assert found[: len(asks)] != odds


def test_without_the_library_it_is_said_how_to_get_it(monkeypatch, asks):
    monkeypatch.setitem(sys.modules, "sklearn", None)

    with pytest.raises(CannotFit, match=r"pip install 'tandem-router\[train\]'"):
        fit(asks, "abc", lambda _: None)


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


def test_asks_of_one_label_alone_do_not_drag_the_offset():
    balanced = read_rows(write_turns())
    one_sided = [row for row in read_rows(write_asks(6)) if not row.item.is_long]

    plain = read_weights(fit(balanced, "x", lambda _: None).content).start
    dragged = read_weights(fit([*balanced, *one_sided], "x", lambda _: None).content).start

    assert abs(dragged - plain) < 3


def test_rows_of_which_only_one_label_counts_cannot_be_fitted():
    turns = write_turns()
    meant_quick = [replace(item, kind=MEANING, is_long=False) for item in turns]

    with pytest.raises(CannotFit, match="both quick and long"):
        fit(read_rows([*turns, *meant_quick]), "x", lambda _: None)
