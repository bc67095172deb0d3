"""What the shipped weights must hold on texts that were never fitted, and how figures are estimated."""

from itertools import product

import pytest

from tests.lab.__main__ import SHIPPED_WEIGHTS
from tests.lab.bars import (
    ASKED_AS,
    FIRST_LINES,
    FORMS,
    Judged,
    Verdict,
    explaining,
    judge_seen,
    list_figures,
    reply_body,
)
from tests.lab.functions import make_functions
from tests.lab.items import Reply, load_items

BIG = "Found it: every one of the 40 pages reads the theme on the client.\n\nI could move all of them to the server:\n- a cookie\n- the root layout\n- CSS variables in each page\n- new tests\n\nShall I?"
SMALL = "Found it: the background is missing in index.html. One line fixes it. Shall I add it?"
LONG_ASK, QUICK_ASK = "port the payment module to the new api and keep the old one working", "fix the typo in the footer"
REPORTS = [
    "Ported the module; the whole suite passes.", "Both endpoints are live now and the suite is green.", "Habe alles umgestellt, läuft.",
    "C'est en place, toute la suite passe.", "已经改好了，所有测试都通过了。", "Rewrote the parser on top of the new lexer; 212 tests pass.",
]  # fmt: skip
EDITS = [
    "mach den titel breiter", "mach die schrift dunkler", "setz den rahmen auf 2px", "rends le bouton plus large", "agrandis un peu le logo",
    "haz el texto más grande", "cambia el icono por una estrella", "deixa o texto maior", "fai il bottone più largo", "сделай кнопку шире",
    "увеличь отступ", "zrób przycisk szerszy", "yazıyı büyüt", "把字体调大一点", "ボタンを赤にして", "글자를 더 크게 해줘", "hide the banner",
    "make the footer sticky", "align it to the left", "just reword it", "simply shorten it", "swap the two labels",
]  # fmt: skip
FITTED_PROJECTS = ["django", "sympy", "matplotlib", "scikit-learn", "astropy", "sphinx", "pytest", "xarray"]
OTHER_PROJECTS = ["zenbridge", "korvid", "plumbago", "tidewater", "mossgrid", "quillbox", "fernlock", "aldervale"]
ISSUES = [
    "{} raises a KeyError when the same name is registered twice\n\nSteps: register, reload, register again. Expected a clear message.",
    "Wrong result of {} for empty input\n\nAn empty list gives None instead of 0. It worked in the release before.",
    "{}: memory is not freed after a failed run\n\nI ran it overnight and the process grew by 2 GB. No idea why.",
    "Inconsistent ordering in the output of {}\n\nTwo runs on the same input differ. The order should be stable.",
    "{} ignores the timezone of a parsed date\n\nParsing and printing again shifts it by an hour in summer.",
    "Support nested options in the configuration of {}\n\nOnly one level is read at the moment; deeper ones are dropped.",
    "{} crashes with unicode names\n\nA file called ü.txt leads to a traceback deep inside the writer.",
    "Deprecation warning of {} points at the wrong line\n\nThe stack level seems to be off by one for decorated functions.",
    "Caching in {} returns stale values after a subclass overrides a property\n\nThe key only holds the name of the base class.",
    "{} should not swallow exceptions of plugins\n\nA broken plugin is skipped silently, which cost me a day.",
]


@pytest.fixture(scope="module")
def explain():
    with explaining(SHIPPED_WEIGHTS.read_bytes()) as explain:
        yield explain


def test_the_same_ask_in_another_form_goes_to_the_same_tier(explain):
    found = {one.name: one.share for one in judge_seen(explain, [], []) if one.name.startswith("forms")}

    assert {name: share for name, share in found.items() if share < 0.95} == {}
    assert (len(found), len(ASKED_AS)) == (9, 8)


def test_a_function_to_complete_goes_to_fast_under_any_first_line(explain):
    functions = make_functions()
    found = {one.name: one.share for one in judge_seen(explain, [], functions) if one.name.startswith("completion")}

    assert {name: share for name, share in found.items() if share < 0.95} == {}
    assert (len(set(functions)), len(found)) == (164, len(FIRST_LINES))


def talk(*messages: str) -> dict:
    roles = ("user", "assistant") * len(messages)
    return {"model": "auto", "messages": [{"role": role, "content": said} for role, said in zip(roles, messages, strict=False)]}


def test_a_small_edit_after_a_report_of_long_work_takes_up_nothing(explain):
    on_fast = [explain(talk(LONG_ASK, report, edit))[1] for report, edit in product(REPORTS, EDITS)]

    assert sum(on_fast) >= 0.9 * len(on_fast)


@pytest.mark.parametrize("before", [(LONG_ASK, "Done."), (QUICK_ASK, "Done."), (LONG_ASK, REPORTS[0])])
def test_an_ask_of_its_own_is_read_alike_in_any_session(explain, before):
    right = {is_long: [] for is_long in (False, True)}
    for item in load_items([FORMS]):
        right[item.is_long].append(explain(talk(*before, item.prompt))[1] is not item.is_long)

    assert min(sum(found) / len(found) for found in right.values()) >= 0.95


def test_issues_go_to_deep_alike_whether_their_project_was_fitted_or_not(explain):
    seen, unseen = (
        sum(not explain(talk(issue.format(name)))[1] for name, issue in product(names, ISSUES)) / (len(names) * len(ISSUES))
        for names in (FITTED_PROJECTS, OTHER_PROJECTS)
    )

    assert abs(seen - unseen) <= 0.1
    assert 0.0 < unseen < 1.0


@pytest.mark.parametrize("reply", ["yes", "go ahead", "do it", "ok", "ja, mach", "oui vas-y", "お願いします", "可以"])
def test_a_reply_takes_the_size_of_what_was_offered(explain, reply):
    small, big = (explain(reply_body(Reply(reply, "why does it flash white?", said, None))) for said in (SMALL, BIG))

    assert (small[1], big[1]) == (True, False)


@pytest.mark.parametrize("reply", ["no thanks", "not now", "lass mal", "pas besoin", "不用了"])
def test_an_offer_that_is_declined_is_quick(explain, reply):
    assert explain(reply_body(Reply(reply, "why does it flash white?", BIG, None)))[1]


def test_figures_come_with_the_range_of_resampled_groups():
    found = Judged({}, {0: (0.9, False), 1: (0.1, True)})
    replies = [Reply("yes", "a", "Shall I?", True, True, "en"), Reply("no", "b", "Shall I?", True, False, "en")]

    figures = {one.name: one for one in list_figures([], replies, found)}

    assert figures["replies to offers: right"].value == 0.5
    assert (figures["replies to offers: right"].low, figures["replies to offers: right"].high) == (0.0, 1.0)
    assert Verdict("g", True, 0.9, False).is_right
