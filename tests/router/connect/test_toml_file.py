"""Settings and tables in TOML."""

import tomllib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from router.connect import toml_file
from router.connect.formats import CannotEdit, line_end

PIECE = {
    "top": 'model = "auto"\nmodel_provider = "tandem"\n',
    "end": '[model_providers.tandem]\nname = "Tandem"\nbase_url = "http://127.0.0.1:4000/v1"\n',
}
OURS = tomllib.loads(PIECE["top"] + PIECE["end"])
ROOT = st.sampled_from(
    [
        'model = "gpt-5.5" # mine',
        "\"model_provider\" = 'x'",
        "# model = 1",
        "",
        'approval_policy = "never"',
        'notes = """\nmodel = "bait"\n[model_providers.tandem]\n\\""""',
        "literal = '''\n[x]\nmodel_provider = 1'''",
        "list = [ # ]\n  'a', # b\n  \"]\",\n]",
        'sandbox.mode = "x"',
        "# a comment\u2028model = 1",
    ]
)
TABLES = st.sampled_from(
    [
        "[model_providers.other]\nname = 'o'\nmodel = 1",
        "[model_providers.tandem]\nname = 'by hand'\nbase_url = \"x\" # mine\n",
        '[ model_providers . "tandem" . http_headers ]\na = "b"',
        "[[mcp]]\nmodel = 1\n[[mcp]]",
        "[profiles]\nmodel = 'x' # ünï",
        "model_providers = {tandem = {name = 'x'}} # inline",
        "[a.b]\n# model\nc = [[1, 2], ['[d]']]",
    ]
)


@st.composite
def texts(draw) -> str:
    lines = draw(st.lists(ROOT, unique=True)) + draw(st.lists(TABLES, unique=True))
    text = "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n"]))
    text = text.replace("\n", "\r\n") if draw(st.booleans()) else text
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assume(False)
    return text


@given(texts())
def test_what_was_put_counts_all_else_stays_and_taking_it_leaves_the_very_text(text):
    put = toml_file.put(text, PIECE)

    before, after = tomllib.loads(text), tomllib.loads(put.text)
    providers = {**before.get("model_providers", {}), **OURS["model_providers"]}
    assert after == {**before, **OURS, "model_providers": providers}
    assert toml_file.holds(put.text, PIECE, frozenset())
    assert toml_file.take(put.text, put.memo, frozenset()) == (text, ())


@given(texts(), st.sampled_from(["# mine\n", 'own = "1"\n']), st.sampled_from(["[mine]\na = 1\n", "# end\n"]))
def test_what_a_person_writes_around_ours_stays_and_ours_goes(text, above, below):
    put, memo = toml_file.put(text, PIECE)
    joint = "" if not text or text.endswith("\n") else line_end(text)

    assert toml_file.take(above + put + below, memo, frozenset()) == (above + text + joint + below, ())


def test_a_changed_piece_is_not_held():
    text = toml_file.put("a = 1\n", PIECE).text

    assert not toml_file.holds(text, {**PIECE, "top": 'model = "fast"\n'}, frozenset())
    assert not toml_file.holds("a = 1\n", PIECE, frozenset())


def test_an_absent_file_gets_the_two_blocks_alone():
    put = toml_file.put(None, PIECE)

    assert tomllib.loads(put.text) == OURS
    assert toml_file.take(put.text, [], frozenset()) == ("", ())


def test_a_broken_file_is_refused_with_its_line():
    with pytest.raises(CannotEdit, match=r"not valid TOML: .*line 2"):
        toml_file.put("a = 1\nb = \n", PIECE)


@pytest.mark.parametrize("text", ["model_providers = {tandem = {name = 'x'}, other = {}}\n", "model_providers = 1\n"])
def test_a_file_without_room_for_a_table_is_refused(text):
    with pytest.raises(CannotEdit):
        toml_file.put(text, PIECE)
