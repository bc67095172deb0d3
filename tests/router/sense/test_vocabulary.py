"""Words in numbers: places, concepts and hints."""

import pytest

from router.sense import vocabulary
from router.sense.vocabulary import read_words

EVERY_KIND = ["rename", "rows", "table", "1234567", "12", "_", "read_row", "öffne", "naïve", "迁移x", "https", "line", "x" * 60]


def phrases(text: str) -> list[str]:
    return [phrase for phrase, *_ in read_words(text.split()).concepts]


def test_a_word_has_its_place_that_of_its_beginning_and_that_of_its_ending():
    assert len(read_words(["rows"]).pieces) == 3  # itself, the pair with the start, the pair with the end
    assert len(read_words(["table"]).pieces) == 4
    assert len(read_words(["tables"]).pieces) == 5


def test_words_with_the_same_beginning_share_a_place_and_so_do_words_with_the_same_ending():
    renames, renamed, unnamed = (set(read_words([word]).pieces) for word in ("renames", "renamed", "unnamed"))

    assert len(renames & renamed) == 1
    assert len(renamed & unnamed) == 1
    assert not renames & unnamed


def test_two_words_name_an_idea_together_only_in_their_order():
    assert "one line" in phrases("make it one line")
    assert "one line" not in phrases("make it line one")


def test_an_idea_of_two_words_comes_after_what_the_second_word_names_alone():
    assert phrases("it is still broken") == ["broken", "still wrong"]


def test_an_idea_holds_the_places_of_the_words_that_named_it():
    pieces, concepts, _ = read_words(["one", "line"])

    assert [(phrase, {*places, pair} <= set(pieces)) for phrase, places, pair in concepts] == [("one line", True)]


def test_no_more_than_24_ideas_are_kept_of_a_text():
    assert len(phrases("rename it " * 23)) == 23
    assert len(phrases("rename it " * 40)) == 24


def test_hints_are_found_within_words_as_often_as_they_are_there():
    hints = read_words(["httphttps", "the", "filesystem", "http", "rerouted"]).hints

    assert hints == ["http", "http", "sys", "http", "rout"]


def test_words_are_read_the_same_after_the_memory_has_started_over():
    before = read_words(["rename", "the", "重命名"])

    read_words([f"word{number}" for number in range(20_000)])

    assert read_words(["rename", "the", "重命名"]) == before


@pytest.mark.parametrize("alone", EVERY_KIND)
def test_a_word_is_read_the_same_whether_it_was_learned_alone_or_among_others(alone, monkeypatch):
    monkeypatch.setattr(vocabulary, "_known", {})
    among = read_words(EVERY_KIND)

    monkeypatch.setattr(vocabulary, "_known", {})
    read_words([alone])

    assert read_words(EVERY_KIND) == among


def test_a_word_of_more_than_40_letters_is_not_kept(monkeypatch):
    monkeypatch.setattr(vocabulary, "_known", {})

    read_words(["rename", "x" * 40, "x" * 41])

    assert {*vocabulary._known} == {"rename", "x" * 40}
