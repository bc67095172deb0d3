"""What `tandem tune` writes and keeps, and what it says when there is nothing to fit."""

import json
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from router.cli import main
from router.cli.past import PastFiles
from router.config.load import default_text
from tests.conftest import SIMULATED
from tests.tools.histories import BEGAN, Told, codex_log


@pytest.fixture
def config(tmp_path, monkeypatch) -> Path:
    """A config in the folder we stand in, beside the logs of a person who asks for long things in few words."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TANDEM_CONFIG", raising=False)
    (tmp_path / "logs").mkdir()
    write_sessions(tmp_path / "logs", 60)
    (tmp_path / "config.yaml").write_text(SIMULATED)
    return tmp_path / "config.yaml"


def write_sessions(folder: Path, sessions: int, turns: int = 1) -> None:
    for number in range(sessions):
        told = [Told(f"fix the typo in part {number} of {turn}", ("Bash",) * 14) for turn in range(turns)]
        (folder / f"rollout-{number}.jsonl").write_text(codex_log(told, BEGAN + timedelta(hours=number), id=f"s{number}"))


def apply() -> int:
    return main(["tune", "logs", "--apply", "--force"])


def test_the_backup_has_the_rights_of_the_original(config):
    config.chmod(0o600)

    assert apply() == 0

    assert config.with_name("config.yaml.bak").stat().st_mode & 0o777 == 0o600
    assert config.stat().st_mode & 0o777 == 0o600


def test_applying_the_same_values_again_writes_nothing_and_says_so(config, capsys):
    assert apply() == 0
    tuned = config.read_bytes()
    capsys.readouterr()

    assert apply() == 0

    assert "nothing is written" in capsys.readouterr().err
    assert config.read_bytes() == tuned
    assert config.with_name("config.yaml.bak").read_text() == SIMULATED
    assert not config.with_name("config.yaml.bak.1").exists()


def test_a_later_backup_leaves_the_untuned_file_where_it_is(config, capsys):
    assert apply() == 0
    tuned = config.read_bytes()
    write_sessions(config.parent / "logs", 90)

    assert apply() == 0

    assert "the old file is config.yaml.bak.1" in capsys.readouterr().err
    assert config.with_name("config.yaml.bak").read_text() == SIMULATED
    assert config.with_name("config.yaml.bak.1").read_bytes() == tuned


def test_in_a_file_with_crlf_only_the_two_lines_change(config):
    old = default_text().replace("\n", "\r\n").encode()
    config.write_bytes(old)

    assert apply() == 0

    pairs = zip(old.split(b"\n"), config.read_bytes().split(b"\n"), strict=True)
    changed = [new for before, new in pairs if before != new]
    assert [line.split(b":")[0].strip() for line in changed] == [b"base_rate", b"personal_log_odds"]
    assert all(line.endswith(b"\r") for line in changed)
    assert config.with_name("config.yaml.bak").read_bytes() == old


def test_a_comment_that_is_indented_deeper_does_not_hinder(config):
    config.write_text(f"{SIMULATED}decision:\n      # of my own\n  hop_seconds: 2\n")

    assert apply() == 0

    assert main(["check"]) == 0
    assert "      # of my own\n" in config.read_text()


def test_too_little_history_is_told_to_programs_too(config, capsys):
    for log in (config.parent / "logs").iterdir():
        log.unlink()
    write_sessions(config.parent / "logs", 5)

    assert main(["tune", "logs", "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert (told["fitted"], told["known_turns"], told["present"]["base_rate"]) == (None, 5, 0.545)
    assert told["because"].startswith("too little history: 5 turns")


def test_a_history_of_one_session_is_said_to_be_that(config, capsys):
    for log in (config.parent / "logs").iterdir():
        log.unlink()
    write_sessions(config.parent / "logs", 1, turns=40)

    assert main(["tune", "logs"]) == 0
    assert "40 turns are known to have been quick or long, but all in one session" in capsys.readouterr().err


def test_tune_ends_at_the_turn_at_which_it_is_interrupted(config, monkeypatch):
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
