import pytest

from router.sense.features import read_features
from router.sense.pasted import own_words

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

    own, lines = own_words(order.format(words=words, pasted=pasted))

    assert own == words
    assert lines >= 3


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
    assert own_words(text) == (text, 0)


def test_a_fenced_block_is_a_paste_whatever_it_holds():
    text = "make the heading bold in this page of ours, and leave the rest as it is please\n```\nplease build it all again from scratch\nwith tests and docs and a release and whatever else it takes\n```"

    assert own_words(text) == ("make the heading bold in this page of ours, and leave the rest as it is please", 4)


def test_a_small_ask_reads_alike_with_and_without_a_log():
    alone, under = read_features("how many warnings are in there"), read_features(f"how many warnings are in there\n{LOG}")

    assert under.pieces == alone.pieces
    assert under.marks != alone.marks
