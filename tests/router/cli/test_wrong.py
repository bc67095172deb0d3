"""`tandem wrong`: the person's word that a turn was misjudged, and what comes of it."""

import sqlite3
from contextlib import closing

import pytest
import yaml

from router.cli import main
from router.stores.sqlite.schemas import LEDGER
from tests.conftest import SIMULATED
from tests.router.cli.recorded import record_turns
from tests.tools.ledgers import write_ledger

LONG = "Implement the whole parser from scratch, with tests and docs"


@pytest.fixture
def here(folder):
    """A folder with a ledger of two turns: the first went to deep, the last to fast."""
    record_turns(folder, LONG, "fix the typo in zanzibar.py")
    return folder


def read_marks(folder) -> list[tuple]:
    with closing(sqlite3.connect(folder / "test.db")) as database:
        return database.execute("SELECT request_id, should_be FROM misjudged WHERE should_be != ''").fetchall()


def test_without_a_word_the_last_turn_should_have_gone_to_the_other_tier(here, capsys):
    assert main(["wrong"]) == 0

    told = capsys.readouterr()
    assert told.out.startswith("marked req_2: should have gone to deep. It went to fast because: looks like a quick edit")
    assert "it counts as redone" in told.err
    assert main(["wrong"]) == 0
    assert read_marks(here) == [("req_2", "deep")], "said twice, it is marked once"


@pytest.mark.parametrize("arguments", [["req_1"], ["fast", "req_1"], ["req_1", "fast"]])
def test_an_older_turn_is_named_by_its_id_before_or_after_the_tier(here, arguments):
    assert main(["wrong", *arguments]) == 0

    assert read_marks(here) == [("req_1", "fast")]


def test_a_tier_that_the_turn_had_is_no_mistake(here, capsys):
    assert main(["wrong", "fast"]) == 1

    assert "req_2 already went to fast: nothing was marked" in capsys.readouterr().err
    assert read_marks(here) == []


def test_nothing_that_was_typed_is_kept_or_shown(here, capsys):
    assert main(["wrong"]) == 0

    told = capsys.readouterr()
    assert "zanzibar" not in told.out + told.err
    with closing(sqlite3.connect(here / "test.db")) as database:
        assert "zanzibar" not in "\n".join(database.iterdump())


def test_a_turn_that_nobody_served_needs_to_be_told_its_tier(here, capsys):
    with closing(sqlite3.connect(here / "test.db")) as database, database:
        database.execute("UPDATE entries SET tier = NULL, target = NULL")

    assert main(["wrong"]) == 2
    assert "no tier served req_2\n  hint: name the right one, as in tandem wrong fast req_2" in capsys.readouterr().err
    assert main(["wrong", "deep"]) == 0
    assert read_marks(here) == [("req_2", "deep")]


def test_a_ledger_that_an_older_tandem_wrote_can_be_marked_and_is_said_to_be_migrated(folder, capsys):
    (folder / "config.yaml").write_text(SIMULATED)
    write_ledger(folder / "test.db", {"id": "req_2"}, migrations=LEDGER.up_to(LEDGER.oldest))

    assert main(["wrong"]) == 0
    assert read_marks(folder) == [("req_2", "deep")]
    assert (
        f"test.db was migrated to schema {LEDGER.newest}: the older file is kept as test.db.before-14"
        in capsys.readouterr().err
    )
    assert main(["wrong"]) == 0
    assert "migrated" not in capsys.readouterr().err


def test_a_call_inside_a_turn_marks_the_turn_that_it_belongs_to(folder, capsys):
    record_turns(folder, LONG, "fix the typo", calls=2)

    assert main(["wrong", "deep", "req_call_2"]) == 0

    assert read_marks(folder) == [("req_2", "deep")]


def test_a_request_that_is_no_turn_of_a_person_is_not_marked(folder, capsys):
    (folder / "config.yaml").write_text(SIMULATED)
    write_ledger(folder / "test.db", {"turn_kind": "side"})

    assert main(["wrong", "deep", "req_1"]) == 1

    assert "does not belong to a turn that a person typed" in capsys.readouterr().err
    assert read_marks(folder) == []


def test_naming_the_tier_that_served_takes_a_mark_back(here, capsys):
    assert main(["wrong"]) == 0
    assert main(["wrong", "fast"]) == 0

    assert "its mark was removed" in capsys.readouterr().err
    assert read_marks(here) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fast", "deep"], "at most one tier and one request"),
        (["fast", "req_1", "req_2"], "at most one tier and one request"),
        (["slow"], "slow is neither a tier (fast, deep) nor a request's id"),
        (["deep", "--rule", "  "], "--rule needs words"),
        (["deep", "--rule", "!?"], "--rule needs words"),
    ],
)
def test_wrong_usage_is_said_and_nothing_is_marked(here, capsys, arguments, said):
    assert main(["wrong", *arguments]) == 2

    assert said in capsys.readouterr().err
    assert read_marks(here) == []


def read_rules(folder) -> list[tuple]:
    rules = yaml.safe_load((folder / "config.yaml").read_text()).get("rules") or []
    return [(rule["when"]["words"], rule["tier"]) for rule in rules]


def test_a_rule_is_written_instead_of_a_mark(here, capsys):
    assert main(["wrong", "deep", "--rule", "security  scan"]) == 0

    told = capsys.readouterr()
    assert told.out == "turns with 'security scan' go to deep from now on\n"
    assert "tandem reload has a running router use it" in told.err
    assert "to undo: mv config.yaml.bak config.yaml" in told.err
    assert read_rules(here) == [("security scan", "deep")]
    assert read_marks(here) == []
    assert main(["explain", "security scan the repo"]) == 0
    assert capsys.readouterr().out.startswith("deep  rule 1 of the config asks for deep")


def test_a_rule_without_a_tier_is_for_the_one_that_the_last_turn_should_have_had(here):
    assert main(["wrong", "--rule", "typo"]) == 0

    assert read_rules(here) == [("typo", "deep")]


def test_a_rule_with_a_tier_needs_no_ledger(folder):
    (folder / "config.yaml").write_text(SIMULATED)

    assert main(["wrong", "fast", "--rule", "docs"]) == 0

    assert read_rules(folder) == [("docs", "fast")]


def test_a_rule_that_is_there_is_not_written_again_and_one_that_says_otherwise_is_named(here, capsys):
    assert main(["wrong", "deep", "--rule", "docs"]) == 0
    assert main(["wrong", "deep", "--rule", "Docs"]) == 0
    assert "nothing was written: rule 1 of the config already sends 'Docs' to deep" in capsys.readouterr().err
    assert main(["wrong", "fast", "--rule", "docs"]) == 1
    assert "rule 1 of the config already decides about 'docs'" in capsys.readouterr().err

    assert read_rules(here) == [("docs", "deep")]
