"""`tandem replay`."""

import json

from router.cli import main
from tests.conftest import SIMULATED
from tests.router.cli.recorded import record_turns
from tests.router.cli.told import TURNS
from tests.tools.histories import LONG, QUICK, Told, write_home
from tests.tools.ledgers import write_ledger

EDITS = Told("rename the variable usr to user in models.py", ("Edit",) * 3)


def test_replay_finds_every_log_in_its_usual_place(home, capsys):
    write_home(home, TURNS)

    assert main(["replay"]) == 0
    told = capsys.readouterr()

    assert told.out.startswith("6 turns: everything on deep → config.yaml")
    assert "read 2 logs (1 of claude-code, 1 of codex), 2 sessions" in told.err
    assert "signs of a wrong tier: asked again 2" in told.out
    assert QUICK.words not in told.out, "words are shown only when asked for"


def test_replay_against_the_same_config_changes_nothing(home, capsys):
    write_home(home, TURNS)
    (home / "other.yaml").write_text(SIMULATED)

    assert main(["replay", "--against", "other.yaml", "--json"]) == 0
    total = json.loads(capsys.readouterr().out)["total"]

    assert (total["turns"], total["to_fast"], total["to_deep"], total["seconds_saved"]) == (6, 0, 0, 0.0)


def test_replay_against_another_config_says_what_would_change_and_shows_it_when_asked(home, capsys):
    write_home(home, [QUICK, LONG])
    (home / "other.yaml").write_text(f"policies: [override]\n{SIMULATED}")

    assert main(["replay", "--against", "other.yaml", "--turns", "1"]) == 0
    out = capsys.readouterr().out

    assert "moved          0 to fast, 0 to deep" not in out
    assert out.count(QUICK.words) == 1
    assert "fast → deep" in out


def test_replay_of_the_ledger_says_what_it_could_not_read(home, capsys):
    write_ledger(home / "test.db")

    assert main(["replay", "--ledger"]) == 0
    told = capsys.readouterr()
    assert told.out == "no turns\n"
    assert "read 0 entries of 0 sessions" in told.err


def test_a_file_that_is_no_log_is_wrong_usage_and_what_can_be_read_is_told(home, capsys):
    (home / "README.md").write_text("# A project\n\nHello.\n")

    assert main(["replay", str(home / "README.md")]) == 2

    told = capsys.readouterr()
    assert "logs of Codex and Claude Code can be read" in told.err
    assert told.out == ""


PLANNED = [Told("how would you restructure the config?", ("Read",), is_planning=True), LONG, QUICK, EDITS]


def test_combine_plan_says_where_plans_were_accepted_and_what_that_takes(home, capsys):
    write_home(home, PLANNED)

    assert main(["replay", "--combine", "plan"]) == 0
    out = capsys.readouterr().out
    assert main(["replay", "--combine", "plan", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)

    assert (told["turns"], told["planned"], told["boundaries"], told["unknown"]) == (8, 2, 2, 0)
    assert told["after"]["seconds"] != told["before"]["seconds"]
    assert "boundaries     2 plans followed by work" in out
    assert "quality        unknown" in out


def test_combine_look_says_what_would_be_looked_at(home, capsys):
    write_home(home, PLANNED)

    assert main(["replay", "--combine", "look"]) == 0
    out = capsys.readouterr().out
    assert main(["replay", "--combine", "look", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)

    assert told["always"]["looks"] == told["edited"] > told["auto"]["looks"] > 0
    assert "look: always" in out
    assert "quality        unknown" in out


def test_a_ledger_is_said_not_to_know_plan_mode(home, capsys):
    record_turns(home, "fix the typo in README.md", "rename the variable usr to user", calls=2)

    assert main(["replay", "--combine", "plan", "--ledger"]) == 0
    assert "2 turns whose plan mode is not recorded" in capsys.readouterr().out
    assert main(["replay", "--combine", "plan", "--ledger", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)

    assert (told["turns"], told["unknown"], told["boundaries"]) == (2, 2, 0)


def test_combine_compares_one_config_with_itself(home, capsys):
    (home / "other.yaml").write_text(SIMULATED)

    assert main(["replay", "--combine", "look", "--against", "other.yaml"]) == 2
    assert "without --against" in capsys.readouterr().err
