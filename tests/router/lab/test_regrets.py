"""Whether a person had to ask again."""

import pytest

from router.lab.regrets import is_asked_again


@pytest.mark.parametrize(
    ("before", "after", "is_again"),
    [
        ("fix the parser", "it is still wrong", True),
        ("fix the parser", "That doesn’t work, same error", True),
        ("fix the failing parser test", "Fix the failing parser test!", True),
        ("fix the parser", "now add a flag to the command", False),
        ("yes", "yes", False),
        ("fix the parser", "thanks, next: " + "a long text " * 40 + "that says still wrong at its end", False),
    ],
)
def test_an_ask_again_is_a_complaint_or_the_same_words(before, after, is_again):
    assert is_asked_again(before, after) is is_again
