"""Words of closed sets are the texts that they stand for."""

import pytest

from router.contract.words import Dialect, Outcome, Tier, Word


def test_each_tier_is_the_others_other():
    assert (Tier.FAST.other, Tier.DEEP.other) == (Tier.DEEP, Tier.FAST)


def test_a_word_is_found_under_its_text_and_its_text_under_the_word(subtests):
    for kind in Word.__subclasses__():
        with subtests.test(kind=kind):
            for word in kind:
                assert {word: 1}[str(word)] == {str(word): 1}[word] == 1
                assert kind(str(word)) is word


def test_words_of_two_sets_that_are_spelt_alike_are_not_mixed_up_by_case():
    assert Outcome.SERVED == "SERVED"
    with pytest.raises(ValueError, match="chatty"):
        Dialect("chatty")
