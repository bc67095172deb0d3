"""The quick ways to count and to search find the same as the plain ones."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.features import MARKS
from router.sense.shape import count_marks, is_red

SIGNS = {
    "commas": ",、，", "lines": "\n", "ticks": "`", "underscores": "_", "brackets": "({[=;<", "slashes": "/", "quotes": "\"'",
    "colons": ":", "questions": "?？؟",
}  # fmt: skip
TEXTS = st.lists(
    st.sampled_from(
        [*"aZéÄ3 \t\n.,!?？؟。、，`_(){}[]=;<>/\\'\":\ud800", ". ", "! ", "->", "=>", "→", "```", "\n    at ", "\n- ", ".py"]
    )
).map("".join)


def count(text: str, hints: list[str] | None = None) -> dict[str, int]:
    return dict(zip(MARKS, count_marks(text, text.lower(), 7, 40, hints or []), strict=False))


@given(TEXTS)
def test_every_sign_is_counted(text):
    found = count(text)

    for name, signs in SIGNS.items():
        assert found[name] == sum(map(text.count, signs)), name
    assert found["sentences"] == text.count(". ") + text.count("! ") + text.count("。")
    assert found["camel_case"] == len(re.findall("[a-z][A-Z]", text))


@given(TEXTS)
def test_what_a_text_has_at_all_is_found(text):
    found = count(text)

    assert found["arrow"] == ("->" in text or "=>" in text or "→" in text)
    assert found["code_fence"] == ("```" in text)
    assert found["trace"] == ("\n    at " in text)
    assert found["ends_with_question"] == text.rstrip().endswith(("?", "？", "؟"))


def test_addresses_and_traces_are_known_by_the_hints_of_the_words():
    assert count("see both", ["http", "rout", "http"])["urls"] == 2
    assert count("it ends", ["exception"])["trace"] == count("it ends", ["traceback"])["trace"] == 1
    assert count("it ends", ["rout"])["trace"] == 0


@pytest.mark.parametrize(
    "text",
    [
        *("FAIL x", "a Traceback (most recent", "npm ERR! 1", "panic: no", "TypeError: no", "MyException: no", "error: no"),
        *("fatal: no", "❌ one", "✗ two", "Exit code 1", "exit code 2", "exit status 1", "exit status 2"),
    ],
)
def test_output_of_something_that_failed_is_red(text):
    assert is_red(text)


@given(
    st.lists(
        st.sampled_from(["1", "0", "9", "٣", " ", ".", "a", "_", " test", " tests ", " failed", " failing", " failure", "s"])
    )
)
def test_a_number_of_failures_is_red(parts):
    text = "".join(parts)

    assert is_red(text) == (re.search(r"\b[1-9]\d* (?:tests? )?fail(?:ed|ing|ures?)\b", text) is not None)
