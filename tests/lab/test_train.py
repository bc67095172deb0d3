"""Fitting: what is learnt from which rows, what has no say, and what the file tells of it."""

import json
import math
from dataclasses import replace

import pytest
from threadpoolctl import threadpool_limits

from policies.reading import load_weights, read_weights
from router.sense.offers import read_offer
from tests.lab.__main__ import SHIPPED_WEIGHTS, shipped_data
from tests.lab.items import (
    VAGUE,
    Reply,
    Row,
    load_items,
    load_replies,
    load_rows,
    mask_names,
    row_of,
    widen,
)
from tests.lab.labelled import ASKS, COMMITS, MEANING, Item
from tests.lab.libraries import CannotFit
from tests.lab.train import Fitted, fingerprint_of
from tests.lab.train import fit as fit_all
from tests.lab.wraps import report_done

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
    """Quick and long asks by turns."""
    return [
        Item(
            source=ASKS,
            repo="asks",
            prompt=(LONG if number % 2 else QUICK)[number // 2 % 5].format(f"part{number}"),
            is_long=bool(number % 2),
            is_clear=True,
            has_tools=True,
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
            id=f"t{number}",
        )
        for number in range(count)
    ]


def read_rows(items: list[Item]) -> list[Row]:
    """Rows in two groups."""
    return [row_of(item, f"asks {number // 2 % 2}") for number, item in enumerate(items)]


def read_one(prompt: str) -> Row:
    return row_of(Item("test", "test", prompt, is_long=False, is_clear=True))


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return read_rows([*write_asks(), *write_turns()])


@pytest.fixture(scope="module")
def fitted(rows):
    return fit(rows, "abc", lambda _: None)


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


def test_words_that_point_back_are_told_from_asks(rows):
    vague = [Item(VAGUE, VAGUE, text, False, True, kind=VAGUE) for text in ("go on", "do it", "yes", "the second one")]
    weights = read_weights(fit([*rows, *read_rows(vague)], "abc", lambda _: None).content)

    assert weights.vague.read(read_one("yes, do it").features) > 0 > weights.vague.read(read_one("fix the typo in x").features)


def test_what_is_offered_decides_where_a_reply_points_back(rows):
    offers = [(f"I could {text.format(f'part{n}')}. Shall I?", text in LONG) for n, text in enumerate((*QUICK, *LONG) * 6)]
    replies = [Reply("yes", f"ask {n}", said, is_long, True) for n, (said, is_long) in enumerate(offers)]
    vague = [Item(VAGUE, VAGUE, text, False, True, kind=VAGUE) for text in ("go on", "do it", "yes", "the second one")]
    weights = read_weights(fit_all([*rows, *read_rows(vague)], replies, "abc", lambda _: None).content)
    yes = read_one("yes").features

    small, big = (
        weights.turn.read(weights.read_values(yes, 1.0, read_offer(f"I could {what}. Shall I?", "yes")))
        for what in ("fix the typo in it", "implement the importer from scratch with tests")
    )

    assert small < big


def test_an_ask_is_fitted_in_other_forms_and_a_function_under_other_first_lines():
    asks = [replace(row, lang="en") for row in read_rows(write_asks())]
    code = row_of(replace(write_asks(1)[0], source="humaneval", kind="", prompt="def f(x):\n    return x"))

    more = [*widen([*asks, code])]

    assert {row.label for row in more} == {0.0, 1.0}
    assert {row.group for row in more} <= {row.group for row in (*asks, code)}
    assert not {row.features for row in more} & {row.features for row in (*asks, code)}


def test_names_of_projects_are_not_fitted():
    (row,) = mask_names([row_of(Item("agent_session_x", "acme/zanzibar", "fix zanzibar in the parser", False, True))])

    assert not {*row.features.pieces} & {*read_one("zanzibar").features.pieces[:1]}
    assert {*read_one("parser").features.pieces} & {*row.features.pieces}


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
        "replies": 0,
    }


def test_the_labels_of_a_group_have_no_say_in_its_own_odds(asks, odds):
    group = asks[0].group
    turned = [replace(row, item=replace(row.item, is_long=row.item.is_long is not (row.group == group))) for row in asks]

    found = score_out_of_fold(turned, lambda _: None)

    own = [index for index, row in enumerate(asks) if row.group == group]
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
    heavy = [replace(asks[0], weight=3.0), *asks[1:]]
    thrice = [*asks, asks[0], asks[0]]

    found = score_out_of_fold(heavy, lambda _: None)

    assert found == pytest.approx(score_out_of_fold(thrice, lambda _: None)[: len(asks)], abs=0.02)


def test_commits_have_no_say(asks, odds):
    found = score_out_of_fold([*asks, *wrong_rows(kind=COMMITS)], lambda _: None)

    assert found[: len(asks)] == odds


def test_rows_of_which_only_one_label_counts_cannot_be_fitted():
    turns = write_turns()
    meant_quick = [replace(item, kind=MEANING, is_long=False) for item in turns]

    with pytest.raises(CannotFit, match="both quick and long"):
        fit(read_rows([*turns, *meant_quick]), "x", lambda _: None)


def test_lines_are_read_with_groups_and_weights(tmp_path):
    path = tmp_path / "data.jsonl"
    asks = "".join(f'{{"id": "a{number}", "text": "rename it", "label": "quick"}}\n' for number in (1, 49, 50))
    path.write_text(
        asks + '{"text": "rename it", "label": "quick", "weight": 3}\n{"text": "go on", "label": "vague"}\n'
        '{"prompt": "fix it", "label": "long", "repo": "r", "source": "agent_session_x"}\n{"prompt": " ", "label": "long"}\n'
    )

    rows = load_rows([path])

    assert [(row.kind, row.group, row.weight, row.label) for row in rows] == [
        (ASKS, "data 0", 1.0, 0.0),
        (ASKS, "data 0", 1.0, 0.0),
        (ASKS, "data 1", 1.0, 0.0),
        (ASKS, "data 0", 3.0, 0.0),
        (VAGUE, "data 0", 1.0, 0.0),
        ("", "r", 1.0, 1.0),
    ]
    assert [row.is_session for row in rows] == [False] * 5 + [True]


def test_replies_and_remarks_are_read_with_what_came_before(tmp_path):
    path = tmp_path / "data.jsonl"
    offer = {"before": "b", "assistant": "Shall I?", "reply": "yes", "label": "long", "kind": "approve_big", "lang": "en"}
    remark = {"before": "c", "remark": "still red", "complaint": "yes", "size": "unclear", "lang": "en"}
    path.write_text(f"{json.dumps(offer)}\n{json.dumps(remark)}\n")

    assert load_rows([path]) == []
    assert load_replies([path]) == [
        Reply("yes", "b", "Shall I?", True, True, "en"),
        Reply("still red", "c", "", None, None, "en"),
    ]


@pytest.mark.shared
def test_the_shipped_weights_are_fitted_to_the_files_that_make_train_reads(shared):
    """`make train` then gives the same bytes, which takes minutes."""
    trained_on = load_weights(str(SHIPPED_WEIGHTS)).trained_on

    assert trained_on["data"] == fingerprint_of(shipped_data(shared / "routing-data"))


def test_a_label_with_its_readings_is_joined_to_the_prompt_next_to_it(tmp_path):
    prior = [{"text": "write it", "calls": 4, "edits": 1}, {"text": "test it", "calls": None, "edits": None}]
    prompt = {"id": "m1", "text": "rename it", "setting": "agent", "prior_turns": 5, "prior": prior}
    (tmp_path / "prompts.jsonl").write_text(json.dumps(prompt))
    labels = tmp_path / "labels.jsonl"
    labels.write_text(json.dumps({"id": "m1", "label": "quick", "readings": ["quick", "quick"]}))

    (item,) = load_items([labels])

    assert (item.prompt, item.prior_turns, item.calls, item.edits, item.previous) == ("rename it", 5, (4, 0), (1, 0), "test it")
    assert (item.is_clear, item.is_long, item.has_tools, item.kind) == (True, False, True, MEANING)
    assert [row.kind for row in load_rows([labels])] == [MEANING]


def test_finished_work_is_read_as_less_than_the_same_work_offered(rows):
    replies = [
        Reply("yes", f"ask {n}", f"I could {text.format(n)}.", text in LONG, True) for n, text in enumerate((*QUICK, *LONG) * 6)
    ]
    rows = [replace(row, lang="en") for row in rows]
    weights = read_weights(fit_all(rows, replies, "abc", lambda _: None).content)

    offered, reported = (
        weights.offer.read(read_offer(said.format("migrate the importer to the new framework"), "yes").features)
        for said in ("I could {}.", "Done. {}: finished.")
    )

    assert reported < offered


@pytest.mark.parametrize(("text", "lang"), [("is it done?", "en"), ("a\nb", "en"), ("x" * 300, "en"), ("rename it", "xx")])
def test_questions_long_texts_and_unknown_languages_are_not_reported_as_done(text, lang):
    assert report_done(text, lang) == ""
