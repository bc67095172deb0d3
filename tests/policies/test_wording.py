"""Ideas are named from what carried the sum."""

import pytest

from policies.learned import find_weights
from policies.wording import read_shapes, say_continued, say_offered, say_size
from router.contract.features import Offer
from router.sense.features import read_features


def say(text: str, size: float, **shares: float) -> str:
    return say_size(size, read_features(text), {name.replace("_", " "): share for name, share in shares.items()})[0]


@pytest.mark.parametrize(
    ("size", "looks"), [(0.0, "looks like a long task"), (-0.01, "may be long"), (-1.5, "may be long"), (-1.51, "looks like a")]
)
def test_only_an_even_chance_looks_like_a_long_task(size, looks):
    assert say("do it", size).startswith(looks)


def test_an_idea_that_hardly_moved_the_odds_is_not_named():
    assert say("x", 2.0, migrate=1.6, tests=0.7, all=0.4, data=-2.0) == "looks like a long task: migrate, tests"
    assert say("x", -3.0, rename=-0.2) == "looks like a quick turn"


def test_an_idea_that_points_the_other_way_is_not_named():
    assert say("x", 2.0, migrate=0.5, rename=-3.0) == "looks like a long task: migrate"
    assert say("x", -3.0, migrate=0.5, rename=-3.0) == "looks like a quick edit: rename"


@pytest.mark.parametrize(
    ("text", "shares", "kind"),
    [
        ("what is a monad?", {"what": -1.0}, "quick question"),
        ("why do we add two here?", {"add": -1.0}, "quick question"),
        ("can you add a comment?", {"add": -1.0, "asked as a question": -0.9}, "quick turn"),
        ("add a comment", {"add": -1.0}, "quick edit"),
        ("can you explain the comment in line 366", {"comment": -1.0}, "quick turn"),
        ("run the tests", {"run": -1.0}, "quick command"),
        ("are all changes committed and pushed?", {"commit": -1.0, "push": -1.0, "asked as a question": -0.9}, "quick turn"),
        ("i will run the server myself, tell me later what I should be able to test with it", {"run": -1.0}, "quick turn"),
        ("the title is in the wrong column", {"title": -1.0, "column": -0.8}, "quick turn"),
        ("review parse()", {"review": -1.0}, "small check"),
        ("write me a haiku", {"write": -1.0}, "short text"),
    ],
)
def test_a_kind_is_named_only_if_what_carried_the_sum_shows_it(text, shares, kind):
    assert say(text, -3.0, **shares).partition(":")[0] == f"looks like a {kind}"


def test_a_hook_before_a_commit_is_no_undoing():
    weights, features = find_weights(), read_features("add a pre-commit hook that runs ruff and mypy")

    told, _ = say_size(weights.first.read(features), features, weights.read_shares(features, is_later=False))

    assert "undo" not in told


def test_the_shape_of_a_text_is_named_where_it_carried_the_sum():
    table = find_weights().first
    long, short = read_features("words of somebody who explains at length. " * 40), read_features("bold")

    assert read_shapes(table, long)["a long message"] > 1
    assert read_shapes(table, short)["few words"] < -1
    assert "a named file" in read_shapes(table, read_features("fix it in parser.py"))
    assert say("x", 2.0, **{"a long message": 2.0, "migrate": 0.6}) == "looks like a long task: migrate, a long message"
    assert say("x", -3.0, **{"few words": -2.0}) == "looks like a quick turn: few words"
    assert say("x", -3.0, **{"few words": -2.0, "rename": -0.6}) == "looks like a quick edit: rename"


@pytest.mark.parametrize(
    ("odds", "told"), [(-1.6, "continues a quick turn"), (-0.1, "continues what may be long"), (0.0, "continues a long task")]
)
def test_words_that_point_back_look_like_what_they_point_at(odds, told):
    assert say_continued(odds) == told


OFFER = Offer(read_features("move all 40 pages to CSS variables and drop the old provider with its tests"), 40, True)


@pytest.mark.parametrize(
    ("odds", "offer", "told"),
    [
        (2.0, OFFER, "takes up an offer: long work"),
        (-0.4, OFFER, "takes up an offer: work that may be long"),
        (-3.0, OFFER, "answers an offer; little is to be done"),
        (2.0, OFFER._replace(is_question=False), "takes up the last message: long work"),
    ],
)
def test_a_reply_says_what_it_answers_and_how_much_that_sets_off(odds, offer, told):
    said, _, ideas = say_offered(odds, offer, find_weights().offer).partition(" (")

    assert said == told
    assert set(filter(None, ideas.rstrip(")").split(", "))) <= {"all", "tests", "remove", "move", "variable"}


@pytest.mark.parametrize(
    "text",
    [
        "I stopped you. The file was renamed fine. Now the next one.",
        "when I remove an item " + "and save the order of the shop again " * 4,
        "I asked git to delete it\n" + '  File "x.py", line 3, in main\n    raise ValueError(name)\n' * 6,
    ],
)
def test_a_story_in_which_something_was_edited_is_no_edit(text):
    assert say(text, -3.0, remove=-1.0) == "looks like a quick turn: remove"
    assert say("remove the second button", -3.0, remove=-1.0) == "looks like a quick edit: remove"


def test_a_question_is_no_reason_for_a_long_task():
    assert say("x?", 2.0, support=1.0, question=1.0, **{"asked as a question": 0.9}) == "looks like a long task: support"
