"""Settings and entries of lists in YAML."""

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from router.connect import yaml_file
from router.connect.formats import CannotEdit, line_end

NONE = frozenset()
KEYS = {"keys": "model: openai/auto\nweak-model: openai/fast\n"}
OURS = yaml.safe_load(KEYS["keys"])
ITEMS = {"list": "models", "missing": "name: Tandem\nschema: v1\n", "items": "- name: auto\n  roles: [chat]\n- name: fast\n"}
ENTRIES = yaml.safe_load(ITEMS["items"])
SETTINGS = st.sampled_from(
    [
        "model: gpt-5.5 # mine",
        "weak-model: >\n  one\n  # no comment\n  two",
        "model: {a: 1,\n  b: 2}",
        '"model":\n  - 1\n\n  # mine too\n',
        "model:",
        "# model: 1",
        "",
        "read: [a, b]",
        "lint-cmd:\n  - 'model: x'",
        "notes: |\n  model: bait\n\n  weak-model: bait",
        "name: mine",
        "models:\n- name: own\n  x: 1",
        "models:\n    # first\n    - name: own\n    - name: other",
        "models: []",
        "ünï: ö",
    ]
)


@st.composite
def texts(draw) -> str:
    text = draw(st.sampled_from(["", "", "---\n"])) + "\n".join(draw(st.lists(SETTINGS, unique=True)))
    text += draw(st.sampled_from(["", "\n", "\n\n"]))
    text = text.replace("\n", "\r\n") if draw(st.booleans()) else text
    try:
        root = yaml.compose(text)
    except yaml.YAMLError:
        assume(False)
    assume(root is None or isinstance(root, yaml.MappingNode))
    names = [key.value for key, _ in root.value] if root else []
    assume(len(set(names)) == len(names))
    # A text of several lines at the end of a file without a last line's end, and nothing may come before it: refused.
    assume(not (text.startswith("---") and text[-1:] != "\n"))
    return text


@given(texts())
def test_keys_count_all_else_stays_and_taking_them_leaves_the_very_text(text):
    put = yaml_file.put(text, KEYS)

    assert yaml.safe_load(put.text) == {**(yaml.safe_load(text) or {}), **OURS}
    assert yaml_file.holds(put.text, KEYS, NONE)
    assert yaml_file.take(put.text, put.memo, NONE) == (text, ())


@given(texts())
def test_entries_come_first_in_their_list_and_taking_them_leaves_the_very_text(text):
    put = yaml_file.put(text, ITEMS)

    before = yaml.safe_load(text) or {}
    after = yaml.safe_load(put.text)
    assert after["models"] == [*ENTRIES, *(before.get("models") or [])]
    assert before == {key: after[key] for key in before} | ({"models": before["models"]} if "models" in before else {})
    assert yaml_file.holds(put.text, ITEMS, NONE)
    assert yaml_file.take(put.text, put.memo, NONE) == (text, ())


@given(texts().filter(lambda text: not text.startswith("---")), st.sampled_from([KEYS, ITEMS]))
def test_what_a_person_writes_around_ours_stays_and_ours_goes(text, piece):
    put, memo = yaml_file.put(text, piece)
    assume(put.startswith(text[:1]))  # ours is not the first: what is written above it then ends a file without a line's end
    joint, left = ("" if not whole or whole.endswith("\n") else line_end(text) for whole in (put, text))

    assert yaml_file.take(f"# mine\n{put}{joint}own: 1\n", memo, NONE) == (f"# mine\n{text}{left}own: 1\n", ())


ROOT_LIST = {"list": "", "items": "- model_id: tandem\n"}


@pytest.mark.parametrize(
    "text", [None, "", "# mine\n", "[]\n", "- model_id: own\n  x: 1\n", "---\n  - model_id: own", "- a\n- b"]
)
def test_a_file_that_is_a_list_gets_our_entry(text):
    put = yaml_file.put(text, ROOT_LIST)

    assert yaml.safe_load(put.text) == [{"model_id": "tandem"}, *(yaml.safe_load(text or "") or [])]
    assert yaml_file.take(put.text, [], NONE) == (text or "", ())


def test_an_absent_file_gets_what_it_needs_next_to_the_list():
    put = yaml_file.put(None, ITEMS)

    assert yaml.safe_load(put.text) == {"name": "Tandem", "schema": "v1", "models": ENTRIES}


@pytest.mark.parametrize(
    ("text", "piece", "reason"),
    [
        ("a: [1\nb: 2\n", KEYS, "line 2: this is not valid YAML"),
        ("{model: x}\n", KEYS, "line 1: the settings are written on one line"),
        ("- a\n", KEYS, "should hold settings"),
        ("models: [{name: x}]\n", ITEMS, "line 1: models is written on one line"),
        ("a: 1\n", ROOT_LIST, "should hold a list"),
        ("---\na: 1\n...\n", KEYS, "no room for ours|not valid YAML"),
        ("\t: x", KEYS, "not valid YAML"),
    ],
)
def test_what_cannot_be_edited_is_refused(text, piece, reason):
    with pytest.raises(CannotEdit, match=reason):
        yaml_file.put(text, piece)
