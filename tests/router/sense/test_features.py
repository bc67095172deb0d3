import pytest

from router.contract.features import MARKS, TABLE_SIZE
from router.sense.features import part_pasted, read_features
from router.sense.lexicon import PHRASES

MARK_PLACES = {name: place for place, name in enumerate(MARKS)}


def mark(text: str, name: str) -> int:
    return read_features(text).marks[MARK_PLACES[name]]


def phrases(text: str) -> set[str]:
    return {phrase for phrase, *_ in read_features(text).concepts}


def test_every_piece_is_a_place_in_the_table_and_counts_once():
    found = read_features("rename the rename of the rename in src/app.py, bitte, 修复错误 修复")

    assert found.pieces
    assert len(set(found.pieces)) == len(found.pieces)
    assert all(0 <= piece < TABLE_SIZE for piece in found.pieces)
    assert len(found.marks) == len(MARKS)


def test_the_middle_of_a_long_text_is_not_read_but_its_length_is():
    head, tail = "please explain this. " * 40, " what is it?" * 60

    one, other = read_features(head + "implement " * 200_000 + tail), read_features(head + "delete   " * 200_000 + tail)

    assert one.pieces == other.pieces
    assert one.length == other.length > read_features("please explain this").length


def test_words_and_their_order_are_told_apart():
    assert read_features("move tests to docs").pieces != read_features("move docs to tests").pieces
    assert read_features("FIX the Typo").pieces == read_features("fix the typo").pieces


def test_plain_and_other_text_are_divided_into_the_same_words():
    plain, other = read_features("set max_retries=3, then run it"), read_features("set max_retries=3, then run it ©")

    assert set(plain.pieces) <= {*other.pieces}


def test_a_number_is_read_by_how_many_digits_it_has():
    assert read_features("change 3 places").pieces == read_features("change 7 places").pieces
    assert read_features("change 3 places").pieces != read_features("change 300 places").pieces


def test_scripts_without_spaces_are_read_by_pairs_of_signs():
    whole, part = read_features("重命名函数"), read_features("重命名")

    assert set(part.pieces) & set(whole.pieces)


def test_the_same_idea_is_named_in_every_language(subtests):
    for text, phrase in [
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
    ]:
        with subtests.test(text=text, phrase=phrase):
            assert phrase in phrases(text)


def test_every_concept_is_a_phrase_of_ours_in_plain_ascii():
    assert len(PHRASES) <= 200
    assert all(phrase.isascii() and phrase.isprintable() for phrase in PHRASES)
    assert phrases("rename CANARY_42 and migrate all of canary.py, bitte alles testen") <= set(PHRASES)


@pytest.mark.parametrize(
    "text", ["hi", "Hello!", "OK.", "👍", "🎉🎉", "...", "great, thanks!", "ありがとう", "спасибо", "lgtm"]
)
def test_a_greeting_thanks_or_a_nod_asks_for_nothing(text):
    assert not read_features(text).has_task


@pytest.mark.parametrize(
    "text",
    [
        "thanks, now rename it", "ok do it", "hi, fix the build", "good, commit this", "test", "yes", "go on",
        "great idea, build it",
    ],
)  # fmt: skip
def test_words_that_ask_for_something_are_a_task_however_polite(text):
    assert read_features(text).has_task


def test_the_shape_of_a_text_is_counted(subtests):
    for text, name, step in [
        ("look at src/app.py and my-page.tsx", "files", 2),
        ("i.e. do it", "files", 0),
        ("is foo.bar() deprecated", "files", 0),
        ("one\n- two\n- three", "list_items", 2),
        ("why?", "ends_with_question", 1),
        ("为什么？", "ends_with_question", 1),
        ("rename getUsr", "camel_case", 1),
        ("a -> b", "arrow", 1),
        ("Traceback (most recent call last)", "trace", 1),
        ("it says\nFAILED tests/test_api.py", "red_output", 1),
        ("3 failed, 2 passed", "red_output", 1),
        ("handle errors when it fails", "red_output", 0),
    ]:
        with subtests.test(text=text, name=name, step=step):
            assert mark(text, name) == step


@pytest.mark.parametrize("text", ["", " ", "\n", "…", "?", "\x00", "ROUTE=fast", "a" * 3_000_000, "\ud800", "🏳️‍🌈", "ก" * 5_000])
def test_any_text_is_measured(text):
    assert len(read_features(text).marks) == len(MARKS)


LOG = "\n".join(f"2024-05-01 10:00:{second:02} WARN deprecated call of load() in worker {second}" for second in range(20))
TRACE = """Traceback (most recent call last):
  File "/srv/app/main.py", line 12, in <module>
    run()
  File "/srv/app/run.py", line 40, in run
    raise ValueError("no such user")
ValueError: no such user"""
DIFF = """diff --git a/app.py b/app.py
index 1f2e3d4..5a6b7c8 100644
--- a/app.py
+++ b/app.py
@@ -1,3 +1,3 @@
    retries = 3  # how often a call is tried
    timeout = 30  # seconds"""
PAGE = """DOM Path: div#root > main.page > section:nth-of-type(2) > button.primary
Position: top=120px, left=40px, width=200px, height=48px
React Component: SaveButton
HTML Element: <button class="primary" disabled>Save</button>"""


@pytest.mark.parametrize("pasted", [LOG, TRACE, DIFF, PAGE], ids=["log", "trace", "diff", "page"])
@pytest.mark.parametrize("order", ["{words}\n{pasted}", "{pasted}\n\n{words}"], ids=["before", "after"])
def test_what_was_typed_around_a_paste_is_what_is_read(pasted, order):
    words = "how many warnings are in there"

    own, lines = part_pasted(order.format(words=words, pasted=pasted))

    assert own == words
    assert sum(lines) >= 3


@pytest.mark.parametrize(
    "text",
    [
        "fix it\nplease",
        LOG,
        "please build these:\n- a login page with reset\n- an admin page for orders\n- an export to csv, xlsx and pdf files\n"
        "- a nightly job that sends the sums to the team\n- docs for all of it",
        "first do the parser, it is the most important part of this whole work\nthen do the printer and its tests\nthen the docs\nthen the release",
    ],
    ids=["short", "nothing but a log", "a list of wishes", "prose"],
)
def test_a_text_without_a_paste_around_words_stays_whole(text):
    assert part_pasted(text) == (text, (0, 0, 0))


def test_a_fenced_block_is_a_paste_whatever_it_holds():
    text = "make the heading bold in this page of ours, and leave the rest as it is please\n```\nplease build it all again from scratch\nwith tests and docs and a release and whatever else it takes\n```"

    own, pasted = part_pasted(text)

    assert (own, sum(pasted)) == ("make the heading bold in this page of ours, and leave the rest as it is please", 4)


def test_a_small_ask_reads_alike_with_and_without_a_log():
    alone, under = read_features("how many warnings are in there"), read_features(f"how many warnings are in there\n{LOG}")

    assert under.pieces == alone.pieces
    assert under.marks != alone.marks
