"""YAML faults in plain words, with the line and a cure."""

import pytest

from router.config.faults import ConfigError
from router.config.parsing import parse
from tests.tools.work import cpu_seconds

FAULTS = {
    "tab": ("server:\n\tport: 4000\n", "line 2", "is indented with a tab", "indent with spaces"),
    "no-break space": ("server:\n  host: a\n\u00a0 port: 1\n", "line 3", "a no-break space", "plain spaces"),
    "one blank too many": (
        "tiers:\n  fast:\n    targets:\n      - name: a\n         model: b\n",
        "line 5",
        "is indented by 9 spaces, and line 4 by 6",
        "same column",
    ),
    "an include": ("server: !include other.yaml\n", "line 1", "!include is not supported", "one file"),
    "two documents": ("a: 1\n---\nb: 2\n", "line 2", "a second document begins here", "---"),
    "TOML": ("[server]\nport = 4000\n", "line 2", "looks like TOML", "name: value"),
    "TOML without a table": ("port = 4000\n", "file", "looks like TOML", "name: value"),
    "a pattern": ("models:\n  *haiku*: fast\n", "line 2", "must be in quotes", 'write "*haiku*"'),
    "a pattern like an alias": ("models:\n  *-fast: fast\n", "line 2", "must be in quotes", 'write "*-fast"'),
    "a pattern in brackets": ("models: {*haiku*: fast}\n", "line 1", "must be in quotes", 'write "*haiku*"'),
    "an alias": ("a: &x {b: 1}\nc: *x\n", "line 2", "anchors and aliases are not supported", "write the block twice"),
    "an open quote": ('a: "b\nc: d\n', "line 1", "a quote is not closed", "close it"),
    "a bracket open at the end": ("a: 1\nb: [\n", "line 2", "the bracket that opens here is not closed", "close it"),
    "an inner bracket open at the end": ("a: 1\nb: {c: [1]\n", "line 2", "opens here is not closed", "close it"),
    "an open bracket": ("a: {b: 1\nc: d\n", "line 2", "the bracket that opens in line 1 is not closed", "close it"),
    "a second colon": ("a: b: c\n", "line 1", "has a second colon", "in quotes"),
    "no colon": ("a: 1\nb\nc: 2\n", "line 3", 'is not a setting, as in "name: value"', "colon"),
    "a duplicate key": ("a: 1\na: 2\n", "line 2", 'duplicate key "a"', ""),
    "a control character": ("a: \x01\n", "file", "", "plain text"),
    "a date that is none": ("a: 2026-13-45\n", "file", "cannot be read", "in quotes"),
    "nothing": (" \n", "file", "is empty", "tandem init"),
    "a comment": ("# only a comment", "file", "must contain settings", "tandem init"),
    "just words": ("just words", "file", 'must contain settings, as "name: value"', "tandem init"),
}


@pytest.mark.parametrize(("text", "where", "said", "hint"), FAULTS.values(), ids=FAULTS)
def test_a_fault_names_its_line_and_its_cure(text, where, said, hint):
    with pytest.raises(ConfigError) as caught:
        parse(text, "config.yaml")

    (fault,) = caught.value.faults
    assert fault.path.split(",")[0] == where
    assert said in fault.problem
    assert hint in fault.hint
    for jargon in ("<block", "token", "scanner", "constructor", "found character"):
        assert jargon not in str(fault)


NAMES = [f"m{number}: fast" for number in range(40_000)]


@pytest.mark.parametrize(
    "text", ["models:\n  " + "\n  ".join(NAMES), "models: {" + ", ".join(NAMES) + "}"], ids=["lines", "brackets"]
)
def test_a_mapping_of_40_000_names_is_refused_without_being_parsed(text):
    def refuse():
        with pytest.raises(ConfigError) as caught:
            parse(text, "config.yaml")
        assert "has more than 10000 settings" in caught.value.faults[0].problem

    assert cpu_seconds(refuse, repeats=3) < 0.5


def test_what_is_right_is_read():
    assert parse("server:\n  port: 4001\n", "config.yaml") == {"server": {"port": 4001}}


def test_a_name_that_yaml_takes_for_a_truth_value_is_a_name():
    assert parse("metrics: {on: off, no: yes}", "test") == {"metrics": {"on": False, "no": True}}
