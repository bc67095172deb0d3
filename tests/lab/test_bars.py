"""What the shipped weights must hold on texts that were never fitted, and how figures are estimated."""

import pytest

from tests.lab.__main__ import SHIPPED_WEIGHTS
from tests.lab.bars import (
    ASKED_AS,
    FIRST_LINES,
    Heard,
    Judged,
    Verdict,
    explaining,
    judge_seen,
    list_figures,
    reply_body,
)
from tests.lab.items import Reply

BIG = "Found it: every one of the 40 pages reads the theme on the client.\n\nI could move all of them to the server:\n- a cookie\n- the root layout\n- CSS variables in each page\n- new tests\n\nShall I?"
SMALL = "Found it: the background is missing in index.html. One line fixes it. Shall I add it?"
CODE = 'def odd(numbers):\n    """Return the odd ones.\n\n    >>> odd([1, 2, 3])\n    [1, 3]\n    """\n'


@pytest.fixture(scope="module")
def explain():
    with explaining(SHIPPED_WEIGHTS.read_bytes()) as explain:
        yield explain


def test_the_same_ask_in_another_form_goes_to_the_same_tier(explain):
    found = {one.name: one.share for one in judge_seen(explain, [], [CODE])}

    assert {name: share for name, share in found.items() if name.startswith("forms") and share < 0.95} == {}
    assert sum(found[f"completion: {line}"] for line in FIRST_LINES) >= 0.95 * len(FIRST_LINES)
    assert len(ASKED_AS) == 8


@pytest.mark.parametrize("reply", ["yes", "go ahead", "do it", "ok", "ja, mach", "oui vas-y", "お願いします", "可以"])
def test_a_reply_takes_the_size_of_what_was_offered(explain, reply):
    small, big = (explain(reply_body(Reply(reply, "why does it flash white?", said, None))) for said in (SMALL, BIG))

    assert (small[1], big[1]) == (True, False)


@pytest.mark.parametrize("reply", ["no thanks", "not now", "lass mal", "pas besoin", "不用了"])
def test_an_offer_that_is_declined_is_quick(explain, reply):
    assert explain(reply_body(Reply(reply, "why does it flash white?", BIG, None)))[1]


def test_figures_come_with_the_range_of_resampled_groups():
    found = Judged({}, {0: (0.9, False, False), 1: (0.1, True, False)}, {})
    replies = [Reply("yes", "a", "Shall I?", True, True, "en"), Reply("no", "b", "Shall I?", True, False, "en")]

    figures = {one.name: one for one in list_figures([], [], replies, found)}

    assert figures["replies to offers: right"].value == 0.5
    assert (figures["replies to offers: right"].low, figures["replies to offers: right"].high) == (0.0, 1.0)
    assert figures["complaints: heard"].count == 0
    assert Verdict("g", True, 0.9, False).is_right
    assert not Heard("g", True, False).is_heard
