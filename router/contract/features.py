"""What the trained reading looks at, as numbers: filled in by `sense`, weighed by the policy, fitted by the lab."""

from typing import NamedTuple


class Features(NamedTuple):
    """One turn in numbers that hold nothing of its text. Every count is capped; -1 stands for a turn that never was.

    `calls_1` to `calls_3` and `edits_1` to `edits_3` are the finished turns, the last first. A field that begins with
    `says_` counts words of one concept in many languages; `says_consent` also knows those that open an earlier sentence;
    `before_` counts them in what the person said before.
    `names_small_edit` is 1 when a short text names an edit that is small by its name. How long a text is, and how it
    opens, is left out: anything put before it would change that, and it told nothing that the rest does not.
    `is_session` is 1 where tools are offered or were called. It says which of the two readings a turn belongs to; neither
    weighs it.
    """

    is_session: int
    turns: int
    calls_1: int
    calls_2: int
    calls_3: int
    calls_sum: int
    calls_most: int
    calls_least: int
    edits_1: int
    edits_2: int
    edits_sum: int
    long_turns: int
    quick_turns: int
    idle_turns: int
    list_items: int
    questions: int
    ends_with_question: int
    ends_with_colon: int
    ends_with_stop: int
    files: int
    slashes: int
    ticks: int
    brackets: int
    urls: int
    errors: int
    places: int
    names_small_edit: int
    says_consent: int
    says_question: int
    says_explain: int
    says_make: int
    says_change: int
    says_operate: int
    says_whole: int
    says_trouble: int
    says_plan: int
    says_test: int
    says_document: int
    says_analyse: int
    says_detail: int
    before_characters: int
    before_asks: int
    before_question: int
    before_make: int
    before_change: int
    before_operate: int
    before_plan: int
    shared_words: int


HISTORY_FIELDS = frozenset(
    {
        *("calls_1", "calls_2", "calls_3", "calls_sum", "calls_most", "calls_least"),
        *("edits_1", "edits_2", "edits_sum", "long_turns", "quick_turns", "idle_turns"),
    }
)
"""What a client that works without tools never shows: the words-only reading does without these."""
