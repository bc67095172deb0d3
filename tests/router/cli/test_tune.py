"""What `tandem tune` writes and keeps, and what it says when there is nothing to fit."""

import json
import random
import signal
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from router.cli import main
from router.cli.past.history import PastFiles
from router.config.load import load_config
from router.contract.economics import Economics
from router.past.replay import choose_from_kept
from router.wiring.build import known_names
from tests.conftest import SIMULATED
from tests.router.cli.recorded import record_turns
from tests.router.cli.told import TURNS, UNSURE, write_history
from tests.tools.histories import BEGAN, Told, codex_log, write_home
from tests.tools.ledgers import write_ledger


@pytest.fixture
def config(tmp_path, monkeypatch) -> Path:
    """A config in the folder we stand in, beside the logs of a person who asks for long things in few words."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TANDEM_CONFIG", raising=False)
    (tmp_path / "logs").mkdir()
    write_sessions(tmp_path / "logs", 60)
    (tmp_path / "config.yaml").write_text(SIMULATED)
    return tmp_path / "config.yaml"


@pytest.fixture
def logs(home) -> Path:
    folder = home / "logs"
    folder.mkdir()
    return folder


def write_sessions(folder: Path, sessions: int, turns: int = 1) -> None:
    for number in range(sessions):
        told = [Told(f"fix the typo in part {number} of {turn}", ("Edit",) * 7) for turn in range(turns)]
        (folder / f"rollout-{number}.jsonl").write_text(codex_log(told, BEGAN + timedelta(hours=number), id=f"s{number}"))


def replace_sessions(config: Path, sessions: int, turns: int = 1) -> None:
    for log in (config.parent / "logs").iterdir():
        log.unlink()
    write_sessions(config.parent / "logs", sessions, turns)


def apply() -> int:
    return main(["tune", "logs", "--apply", "--anyway"])


def test_applying_the_same_values_again_writes_nothing_and_says_so(config, capsys):
    assert apply() == 0
    tuned = config.read_bytes()
    capsys.readouterr()

    assert apply() == 0

    assert "nothing was written" in capsys.readouterr().err
    assert config.read_bytes() == tuned
    assert config.with_name("config.yaml.bak").read_text() == SIMULATED
    assert not config.with_name("config.yaml.bak.1").exists()


def read_decision(config: Path) -> Economics:
    """The values that a router would decide by."""
    return load_config(config, known_names()).config.decision


def test_the_weights_that_the_values_were_fitted_to_are_written_with_them(config, capsys):
    weights = load_config(config, known_names()).weights_fingerprint

    assert main(["tune", "logs", "--apply", "--anyway", "--json"]) == 0

    fitted = json.loads(capsys.readouterr().out)["fitted"]
    decision = read_decision(config)
    assert yaml.safe_load(config.read_text())["decision"]["fitted_to"] == weights != ""
    assert (decision.base_rate, decision.personal_log_odds) == (fitted["base_rate"], fitted["personal_log_odds"])
    assert main(["check"]) == 0
    assert "fitted to other weights" not in "".join(capsys.readouterr())


def test_values_that_were_fitted_to_other_weights_are_fitted_anew(config, capsys):
    assert apply() == 0
    tuned = config.read_text()
    weights = load_config(config, known_names()).weights_fingerprint
    config.write_text(tuned.replace(weights, "000000000000"))
    assert read_decision(config).personal_log_odds == 0.0
    capsys.readouterr()

    assert apply() == 0

    assert "decision.personal_log_odds  0 → " in capsys.readouterr().out
    assert config.read_text() == tuned


def test_too_little_history_is_told_to_programs_too(config, capsys):
    replace_sessions(config, 5)

    assert main(["tune", "logs", "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert (told["fitted"], told["known_turns"], told["present"]["base_rate"]) == (None, 5, 0.5)
    assert told["because"].startswith("too little history: 5 turns")


def test_a_history_of_one_session_is_said_to_be_that(config, capsys):
    replace_sessions(config, 1, turns=40)

    assert main(["tune", "logs"]) == 0
    assert "40 turns are known to be quick or long, but all in one session" in capsys.readouterr().err


def test_tune_ends_at_the_turn_at_which_it_is_interrupted(config, monkeypatch, heard_signals):
    cases, given = PastFiles.cases, []

    def interrupt_after_the_third(self, name):
        for case in cases(self, name):
            given.append(case)
            yield case
            if len(given) == 3:
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(PastFiles, "cases", interrupt_after_the_third)

    assert main(["tune", "logs"]) == 130
    assert len(given) == 3


def test_the_turns_that_are_skipped_are_counted_once_each_and_with_the_reason(home, capsys):
    record_turns(home, "fix the typo", "rename it to b", "rename it to c", "bump the version", "run the linter")
    with closing(sqlite3.connect(home / "test.db")) as database, database:
        others = "UPDATE entries SET decision = json_set(decision, '$.weights', 'others'"
        database.execute(f"{others}) WHERE id IN ('req_1', 'req_2')")
        database.execute(f"{others}, '$.decided_by', 'override') WHERE id = 'req_3'")
        database.execute("UPDATE entries SET output_tokens = NULL WHERE id = 'req_4'")

    assert main(["tune", "--ledger"]) == 0

    said = (
        "skipped 4 of 5 turns: 2 scored with other weights and recorded without text,"
        " 1 scored with other weights, though something else decided, 1 not known to be quick or long"
    )
    assert said in capsys.readouterr().err


def test_tune_with_little_history_says_so_and_changes_nothing(home, capsys):
    write_home(home, TURNS)

    assert main(["tune", "--apply"]) == 1
    assert "too little history: 6 turns" in capsys.readouterr().err
    assert (home / "config.yaml").read_text() == SIMULATED


def test_tune_reads_the_logs_and_the_ledger_that_are_there(home, capsys):
    write_home(home, TURNS)
    write_ledger(home / "test.db")

    assert main(["tune"]) == 0
    err = capsys.readouterr().err
    assert "read 0 entries" in err
    assert "read 2 logs" in err


def test_tune_shows_the_change_and_writes_nothing_until_told_to(home, logs, capsys):
    write_history(logs)
    (home / "config.yaml").write_text(UNSURE)

    assert main(["tune", "logs"]) == 0
    out = capsys.readouterr().out

    assert "decision.personal_log_odds  0 → " in out
    assert "tier changes    0 of" not in out
    assert "No sign of harm on the held-out part." in out
    assert (home / "config.yaml").read_text() == UNSURE


def test_tune_apply_writes_the_fitted_values_and_keeps_the_old_file(home, logs, capsys):
    write_history(logs)
    (home / "config.yaml").chmod(0o640)
    (home / "config.yaml").write_text(f"# mine\n{UNSURE}decision:\n  base_rate: 0.5  # shipped\n")
    assert main(["replay", "logs", "--json"]) == 0
    before = json.loads(capsys.readouterr().out)["total"]["after"]

    assert main(["tune", "logs", "--apply", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)

    text = (home / "config.yaml").read_text()
    assert text.startswith("# mine\n")
    assert f"base_rate: {result['fitted']['base_rate']:g}  # shipped" in text
    assert f"personal_log_odds: {result['fitted']['personal_log_odds']:g}" in text
    assert "base_rate: 0.5  # shipped" in (home / "config.yaml.bak").read_text()
    assert (home / "config.yaml").stat().st_mode & 0o777 == 0o640
    assert main(["check"]) == 0
    capsys.readouterr()
    assert main(["replay", "logs", "--json"]) == 0
    after = json.loads(capsys.readouterr().out)["total"]["after"]
    assert after["accuracy"] > before["accuracy"]


def test_tune_refuses_what_may_do_harm_unless_forced(home, logs, capsys):
    write_history(logs, 70)
    (home / "config.yaml").write_text(UNSURE)
    for number in range(70, 100):
        turns = [Told(f"fix the typo in part {number}")]
        (logs / f"rollout-{number}.jsonl").write_text(codex_log(turns, BEGAN + timedelta(hours=number), id=f"s{number}"))

    assert main(["tune", "logs", "--apply"]) == 1
    assert "may get worse" in capsys.readouterr().err
    assert (home / "config.yaml").read_text() == UNSURE
    assert main(["tune", "logs", "--apply", "--anyway"]) == 0
    assert "personal_log_odds" in (home / "config.yaml").read_text()


def write_person(folder: Path) -> None:
    """400 turns of somebody whose "deploy" is always long and whose "docs" are always quick, in other words than usual."""
    chance = random.Random(5)
    parts = [
        f"{adjective} {noun}" for adjective in ("old", "new", "small", "big") for noun in ("api", "page", "worker", "form")
    ]
    for number in range(80):
        told = []
        for turn in range(5):
            is_long, part = chance.random() < 0.5, chance.choice(parts)
            words = f"deploy the {part}" if is_long else f"write all docs of the {part} from scratch"
            told.append(Told(f"{words}, round {number} {turn}", ("Edit",) * (8 if is_long else 1)))
        (folder / f"rollout-{number}.jsonl").write_text(codex_log(told, BEGAN + timedelta(hours=number), id=f"s{number}"))


def share_right(capsys) -> float:
    assert main(["replay", "logs", "--json"]) == 0
    return json.loads(capsys.readouterr().out)["total"]["after"]["accuracy"]


def test_two_rules_learn_a_person_whom_no_offset_can(home, logs, capsys):
    write_person(logs)
    (home / "config.yaml").write_text(f"{SIMULATED}rules: []  # mine\n#  - {{an: example}}\n")
    before = share_right(capsys)
    assert main(["tune", "logs", "--json"]) == 0
    regret = json.loads(capsys.readouterr().out)["regret_per_100"]
    assert regret["before"] > 80
    assert regret["after"] < 3

    assert main(["tune", "logs", "--apply"]) == 0

    told = capsys.readouterr()
    assert "deploy → deep: right in " in told.out
    assert "docs   → fast: right in " in told.out
    text = (home / "config.yaml").read_text()
    found = [(rule["when"]["words"], rule["tier"]) for rule in yaml.safe_load(text)["rules"]]
    assert sorted(found) == [("deploy", "deep"), ("docs", "fast")]
    assert "rules:  # mine\n" in text
    assert text.count("# tandem tune, ") == 2
    assert "decision:" not in text
    assert before < 0.7
    assert share_right(capsys) > 0.98

    assert main(["tune", "logs", "--apply"]) == 0
    assert "nothing was written" in capsys.readouterr().err
    assert (home / "config.yaml").read_text() == text


MARKED = "fix the typo in the zanzibar banner"
OTHERS = ["fix the typo", "fix the typo in the readme", "rename a to b", "bump the version to 1.4.2", "run the linter"]


@pytest.fixture
def marked(home, capsys):
    """A ledger of quick asks, of which some were marked for deep."""
    names = record_turns(home, *[MARKED] * 4, *OTHERS)
    for name in names[:4]:
        assert main(["wrong", "deep", name]) == 0
    capsys.readouterr()
    return home


def decide(capsys, words: str) -> tuple[str, str]:
    capsys.readouterr()
    assert main(["explain", "--json", words]) == 0
    told = json.loads(capsys.readouterr().out)
    return told["tier"], told["because"]


def test_marks_move_asks_like_the_marked_one_and_no_other(marked, capsys):
    assert main(["tune", "--ledger", "--apply"]) == 0

    told = capsys.readouterr()
    assert "marked turns    0 → 4 of 4 where you said (1 kind of ask)" in told.out
    assert "other turns     0 of 5 change their tier with them" in told.out
    assert "personal.json: 1 kind of ask (1 added). tandem reload" in told.err
    assert "to undo: tandem tune --undo" in told.err
    for words in (MARKED, f"{MARKED} please", "fix this typo in the zanzibar banner"):
        assert decide(capsys, words) == ("deep", "you marked turns like this one for deep")
    assert [decide(capsys, words)[0] for words in OTHERS] == ["fast"] * 5
    assert (marked / "config.yaml").read_text() == SIMULATED
    assert (marked / "personal.json").stat().st_mode & 0o777 == 0o600


def test_what_marks_taught_is_forgotten_and_learnt_again_from_the_same_marks(marked, capsys):
    assert main(["tune", "--ledger", "--apply"]) == 0
    first = (marked / "personal.json").read_bytes()
    assert b"zanzibar" not in first, "nothing that was typed is kept"
    capsys.readouterr()
    assert main(["tune", "--ledger", "--apply"]) == 0
    assert "wrote" not in capsys.readouterr().err
    assert (marked / "personal.json").read_bytes() == first, "learning twice goes no further"

    assert main(["tune", "--forget"]) == 0
    assert not (marked / "personal.json").exists()
    assert decide(capsys, MARKED)[0] == "fast"
    assert main(["tune", "--forget"]) == 0
    assert "nothing to forget" in capsys.readouterr().err

    assert main(["tune", "--ledger", "--apply"]) == 0
    assert without_dates((marked / "personal.json").read_bytes()) == without_dates(first)


def without_dates(table: bytes) -> dict:
    told = json.loads(table)
    return {**told, "kinds": [{**kind, "at": None} for kind in told["kinds"]]}


def test_marks_that_the_table_accounts_for_do_not_move_the_offset(home, logs, capsys):
    write_history(logs, 60)
    (home / "config.yaml").write_text(UNSURE)
    assert main(["tune", "logs", "--json"]) == 0
    without = json.loads(capsys.readouterr().out)
    for name in record_turns(home, *[MARKED] * 16):
        assert main(["wrong", "deep", name]) == 0
    (home / "config.yaml").write_text(UNSURE)
    capsys.readouterr()

    assert main(["tune", "logs", "--ledger", "--json"]) == 0

    with_marks = json.loads(capsys.readouterr().out)
    assert (with_marks["marks"]["turns"], with_marks["marks"]["right_after"]) == (16, 16)
    assert with_marks["fitted"] == without["fitted"]


def test_a_table_of_other_weights_is_used_and_check_says_that_it_can_be_fitted_again(marked, capsys):
    assert main(["tune", "--ledger", "--apply"]) == 0
    path = marked / "personal.json"
    path.write_text(path.read_text().replace(load_config(marked / "config.yaml", known_names()).weights_fingerprint, "0123"))

    assert decide(capsys, MARKED)[0] == "deep"
    assert main(["check"]) == 0
    assert "personal.json: was fitted to other weights; it is used" in capsys.readouterr().out


def test_a_file_that_is_no_table_is_not_used_and_not_deleted(marked, capsys):
    (marked / "personal.json").write_text('{"name": "mine"}')

    assert decide(capsys, MARKED)[0] == "fast"
    assert main(["check"]) == 0
    assert "it is not used" in capsys.readouterr().out
    assert main(["tune", "--forget"]) == 1
    assert (marked / "personal.json").exists()


def test_a_table_that_cannot_be_read_now_is_not_replaced(marked, capsys):
    (marked / "personal.json").symlink_to(marked / "away" / "personal.json")

    assert main(["tune", "--ledger", "--apply"]) == 1
    assert f"not applied: {marked / 'personal.json'}: No such file or directory" in capsys.readouterr().err
    assert (marked / "personal.json").is_symlink()


def test_measuring_shows_how_far_it_is(config, capsys, monkeypatch):
    monkeypatch.setattr("router.cli.progress._PLAIN_SECONDS", 0.0)

    assert main(["tune", "logs"]) == 0
    assert "resampling: 50%" in capsys.readouterr().err


def test_only_turns_that_are_known_to_be_quick_or_long_are_decided_again(home, monkeypatch):
    record_turns(home, "fix the typo", "rename it to b", "bump the version")
    with closing(sqlite3.connect(home / "test.db")) as database, database:
        database.execute("UPDATE entries SET output_tokens = NULL WHERE id = 'req_2'")
    decided = []

    def choose(house, case):
        decided.append(case.request)
        return choose_from_kept(house, case)

    monkeypatch.setattr("router.cli.tune.choose_from_kept", choose)
    assert main(["tune", "--ledger"]) == 0

    assert sorted(decided) == ["req_1", "req_3"]


@pytest.mark.parametrize("personal", ["on", "off"])
def test_tune_shows_what_the_router_learns_of_each_caller(home, capsys, personal):
    record_turns(home, *(f"fix the typo in part {number}" for number in range(20)))
    (home / "config.yaml").write_text(f"{SIMULATED}decision: {{personal: {personal}}}\n")

    assert main(["tune", "--ledger"]) == 0
    said = capsys.readouterr().out
    assert main(["tune", "--ledger", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["callers"]

    if personal == "off":
        assert (said, told) == ("", {})
    else:
        assert told["local"]["turns"] == 19
        assert -0.5 < told["local"]["log_odds"] < 0
        assert said.splitlines()[1:] == [f"  local  {told['local']['log_odds']:+.2f} from 19 turns"]
