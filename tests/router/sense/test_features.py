import pytest

from router.contract.features import HISTORY, MARKS, TABLE_SIZE, Features
from router.contract.signals import FinishedTurn, SessionHistory
from router.sense.features import leaves_open, read_features, shown_words
from router.sense.lexicon import PHRASES

NONE = SessionHistory()
MARK_PLACES = {name: place for place, name in enumerate(MARKS)}


def read(text: str, history: SessionHistory = NONE, *, offers_tools: bool = True) -> Features:
    return read_features(text, history, offers_tools=offers_tools)


def mark(text: str, name: str) -> int:
    return read(text).marks[MARK_PLACES[name]]


def phrases(text: str) -> set[str]:
    return {phrase for phrase, _ in read(text).concepts}


def test_every_piece_is_a_place_in_the_table_and_counts_once():
    found = read("rename the rename of the rename in src/app.py, bitte, 修复错误 修复")

    assert found.pieces
    assert len(set(found.pieces)) == len(found.pieces)
    assert all(0 <= piece < TABLE_SIZE for piece in found.pieces)
    assert len(found.marks) == len(MARKS)


def test_the_middle_of_a_long_text_is_not_read_but_its_length_is():
    head, tail = "please explain this. " * 40, " what is it?" * 60

    one, other = read(head + "implement " * 200_000 + tail), read(head + "delete   " * 200_000 + tail)

    assert one.pieces == other.pieces
    assert one.length == other.length > read("please explain this").length


def test_words_and_their_order_are_told_apart():
    assert read("move tests to docs").pieces != read("move docs to tests").pieces
    assert read("FIX the Typo").pieces == read("fix the typo").pieces


def test_plain_and_other_text_are_divided_into_the_same_words():
    plain, other = read("set max_retries=3, then run it"), read("set max_retries=3, then run it ©")

    assert set(plain.pieces) <= {*other.pieces}


def test_a_number_is_read_by_how_many_digits_it_has():
    assert read("change 3 places").pieces == read("change 7 places").pieces
    assert read("change 3 places").pieces != read("change 300 places").pieces


def test_scripts_without_spaces_are_read_by_pairs_of_signs():
    whole, part = read("重命名函数"), read("重命名")

    assert set(part.pieces) & set(whole.pieces)


def test_a_first_turn_has_no_history_and_a_later_one_has_a_step_for_each_count():
    later = read("go on", SessionHistory(1, (FinishedTurn("a", 3, 1),)))

    assert read("go on").history == ()
    assert len(later.history) == len(HISTORY)


def test_counts_of_a_history_saturate_below_what_an_evaluation_can_show():
    busy = SessionHistory(200, (FinishedTurn("a", 900, 900),) * 3)
    capped = SessionHistory(20, (FinishedTurn("a", 60, 60),) * 3)

    assert read("go on", busy) == read("go on", capped)


def test_a_client_without_tools_whose_turns_made_no_calls_shows_no_history():
    talked, worked = SessionHistory(1, (FinishedTurn("a", 0, 0),)), SessionHistory(1, (FinishedTurn("a", 3, 0),))

    assert read("go on", talked, offers_tools=False).history == ()
    assert read("go on", worked, offers_tools=False) == read("go on", worked, offers_tools=True)


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("migrate the store", "migrate"),
        ("bitte migriere den Dienst", "migrate"),
        ("migrer symfony 3.4 -> 7", "migrate"),
        ("把项目迁移到 Vite", "migrate"),
        ("移行してください", "migrate"),
        ("миграция на postgres", "migrate"),
        ("benenne parseDt um", "rename"),
        ("renombra la variable", "rename"),
        ("关于错别字", "typo"),
        ("corrige l'orthographe", "typo"),
        ("refactor the whole codebase", "whole codebase"),
        ("do it step by step", "step by step"),
    ],
)
def test_the_same_idea_is_named_in_every_language(text, phrase):
    assert phrase in phrases(text)


def test_every_concept_is_a_phrase_of_ours_in_plain_ascii():
    assert len(PHRASES) <= 200
    assert all(phrase.isascii() and phrase.isprintable() for phrase in PHRASES)
    assert phrases("rename CANARY_42 and migrate all of canary.py, bitte alles testen") <= set(PHRASES)


@pytest.mark.parametrize(
    "text",
    [
        "hi",
        "Hello!",
        "thanks",
        "thank you so much",
        "ok",
        "OK.",
        "👍",
        "🎉🎉",
        "...",
        "great, thanks!",
        "good morning",
        "danke",
        "merci",
        "谢谢",
        "ありがとう",
        "спасибо",
        "lgtm",
        "perfect",
        "cool, looks good",
    ],
)
def test_a_greeting_thanks_or_a_nod_asks_for_nothing(text):
    assert not read(text).has_task


@pytest.mark.parametrize(
    "text",
    [
        "thanks, now rename it",
        "ok do it",
        "hi, fix the build",
        "good, commit this",
        "test",
        "yes",
        "go on",
        "great idea, build it",
    ],
)
def test_words_that_ask_for_something_are_a_task_however_polite(text):
    assert read(text).has_task


@pytest.mark.parametrize(
    "text", ["fix it", "same for the others", "do the rest", "please do the same for the other one", "mach das auch"]
)
def test_words_that_do_not_say_what_are_vague(text):
    assert leaves_open(text)


@pytest.mark.parametrize("text", ["fix the parser", "same for the invoices page", "rename it", "do the migration", "thanks"])
def test_words_that_say_what_are_not_vague(text):
    assert not leaves_open(text)


@pytest.mark.parametrize(
    "text",
    [
        "it still doesn't work",
        "that's wrong, do it again",
        "still fails",
        "same error",
        "das geht nicht",
        "всё ещё не работает",
        "还是不行",
    ],
)
def test_words_that_say_it_is_still_wrong_are_a_correction(text):
    assert read(text).is_correction


@pytest.mark.parametrize(
    "text",
    [
        "thanks, works",
        "run it again",
        "is that still the default?",
        "don't fix the tests",
        "add a still image",
        "now do the next page",
        "rename it again_and_again.py",
    ],
)
def test_other_words_are_no_correction(text):
    assert not read(text).is_correction


@pytest.mark.parametrize(
    ("text", "name", "step"),
    [
        ("look at src/app.py and my-page.tsx", "files", 2),
        ("i.e. do it", "files", 0),
        ("is foo.bar() deprecated", "files", 0),
        ("one\n- two\n- three", "list_items", 2),
        ("why?", "ends_with_question", 1),
        ("为什么？", "ends_with_question", 1),
        ("rename getUsr", "camel_case", 1),
        ("a -> b", "arrow", 1),
        ("Traceback (most recent call last)", "trace", 1),
    ],
)
def test_the_shape_of_a_text_is_counted(text, name, step):
    assert mark(text, name) == step


@pytest.mark.parametrize("text", ["", " ", "\n", "…", "?", "\x00", "ROUTE=fast", "a" * 3_000_000, "\ud800", "🏳️‍🌈", "ก" * 5_000])
def test_any_text_is_measured(text):
    assert len(read(text).marks) == len(MARKS)


@pytest.mark.parametrize("text", ["fix it", "a\nb " * 300, "bitte " * 5_000, f"first {'x' * 950} last", "修复" * 2_000])
def test_the_words_that_are_shown_are_those_that_are_read(text):
    shown = shown_words(text)

    assert len(shown) <= 901  # 900 of the text, and a line break between its beginning and its end
    assert read(shown).pieces == read(text).pieces


def test_a_claimed_tier_is_not_among_the_words_that_are_shown():
    assert shown_words("  rename foo; use the deep model please  ") == "rename foo"
