"""Words of many languages stand for one phrase of ours; greetings ask for nothing."""

import pytest

from router.sense.lexicon import PAIRS, PHRASES, WORDS, asks_for_nothing, find_parts, find_phrase, find_speaking


@pytest.mark.parametrize(
    ("word", "phrase"),
    [
        ("rename", "rename"),
        ("renaming", "rename"),
        ("umbenennen", "rename"),
        ("renombrar", "rename"),
        ("typo", "typo"),
        ("typography", None),
        ("usuń", "remove"),
        ("xyzzy", None),
        ("", None),
    ],
)
def test_a_word_is_found_whole_or_by_how_it_begins(word, phrase):
    assert find_phrase(word) == phrase


def test_words_that_may_stand_for_a_phrase_alone_or_after_another_are_picked_out():
    assert find_speaking({"typo", "renaming", "scratch", "xyzzy", "rows"}) == {"typo", "renaming", "scratch"}
    assert find_speaking(set()) == set()


def test_parts_of_a_run_without_spaces_are_found_where_they_begin_the_longest_first():
    assert find_parts("请重命名这个变量") == [("重命名", "rename"), ("变量", "variable")]
    assert find_parts("データベース 데이터베이스") == [(part, "database") for part in ("データベース", "데이터베이스")]
    assert find_parts("数据") == [("数据", "data")]
    assert find_parts("abc") == []


def test_every_phrase_that_a_word_or_a_pair_stands_for_is_one_that_may_be_said():
    said = {*WORDS.values(), *(phrase for seconds in PAIRS.values() for phrase in seconds.values())}

    assert said <= set(PHRASES)
    assert len(PHRASES) == len(set(PHRASES))


def test_two_words_that_must_follow_each_other_are_no_single_words():
    assert PAIRS["line"]["one"] == "one line"
    assert "one_line" not in WORDS


@pytest.mark.parametrize(
    ("text", "is_idle"),
    [
        ("", True),
        ("thanks", True),
        ("thank you so much", True),
        ("vielen dank", False),
        ("merci beaucoup", True),
        ("谢谢", True),
        ("thanks now fix it", False),
        ("you", False),
        ("good good good good good good good good good", False),
    ],
)
def test_thanks_and_greetings_ask_for_nothing_until_something_else_is_said(text, is_idle):
    assert asks_for_nothing(text.split()) is is_idle
