import pytest

from router.sense.offers import read_offer

OPTIONS = "Two ways:\n1. set a header, one line\n2. rewrite all 40 pages, the router and the tests\n3. leave it\n\nWhich one?"


@pytest.mark.parametrize(("reply", "number"), [("2", 40), ("2 please", 40), ("the header one", 0), ("rewrite it", 40)])
def test_a_reply_selects_by_number_or_by_words(reply, number):
    assert read_offer(OPTIONS, reply).number == number


@pytest.mark.parametrize(
    "said", ["A) one line in the config B) port 60 services to arq", "А — одна строка. Б — перенос 60 сервисов."]
)
def test_options_within_a_line_are_selected_by_letter(said):
    small, big = (read_offer(said, reply) for reply in (("A", "B") if said[0] == "A" else ("А", "Б")))

    assert (small.number, big.number) == (0, 60)


def test_a_short_question_is_read_with_the_list_before_it():
    offer = read_offer(
        "Found it.\n\nTo do:\n- a cookie\n- a layout\n- 12 pages\n- its tests and the docs of both\n\nShall I?", "yes"
    )

    assert (offer.number, offer.is_question) == (12, True)


@pytest.mark.parametrize("text", ["since 2019", "version 2.4.1", "in 20ms", "at 80%", "line src/a.py:31", "`3`", "0,85"])
def test_years_versions_sizes_and_shares_are_no_counts(text):
    assert read_offer(f"I could look at it, {text}, if you like.", "ok").number == 0


@pytest.mark.parametrize(("text", "number"), [("1,200 files", 1200), ("1.200 Dateien", 1200), ("3, 4 and 40 places", 40)])
def test_a_comma_parts_thousands_or_the_items_of_a_list(text, number):
    assert read_offer(f"I could look at {text} if you like.", "ok").number == number


@pytest.mark.parametrize("said", ["", "?", "…" * 3_000, "\ud800", "- " * 5_000])
def test_any_message_is_read(said):
    assert read_offer(said, "yes").number >= 0
