"""`tandem replay` and `tandem tune` as a person meets them."""

import json
import os
import random
import sqlite3
import sys
from contextlib import closing
from datetime import timedelta

import pytest

from router.cli import main
from tests.conftest import SIMULATED
from tests.tools.histories import BEGAN, LONG, QUICK, Told, aider_log, claude_log, codex_log, specstory_log, write_home

TURNS = [QUICK, LONG, Told("it is still wrong", ("Bash",))]
UNSURE = f"{SIMULATED}policies: [override, {{learned: {{strength: 0.3}}}}]\n"
"""The words alone are not believed much, so that a person's own history can outweigh them."""
NETWORK = ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty home that is also the folder we stand in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("TANDEM_CONFIG", raising=False)
    (tmp_path / "config.yaml").write_text(SIMULATED)
    return tmp_path


def write_history(folder, sessions: int = 100, seed: int = 3) -> None:
    """A person who asks for long things in words that sound quick: the shipped values send too much to fast."""
    chance = random.Random(seed)
    for number in range(sessions):
        turns = [Told(f"fix the typo in part {number}", ("Edit",) * (7 if chance.random() < 0.8 else 1))]
        path = folder / f"rollout-{number}.jsonl"
        path.write_text(codex_log(turns, BEGAN + timedelta(hours=number), id=f"s{number}"))
        os.utime(path, (1_000 + number, 1_000 + number))


def test_replay_finds_every_log_in_its_usual_place(here, capsys):
    write_home(here, TURNS)
    (here / ".specstory/history").mkdir(parents=True)
    (here / ".specstory/history/one.md").write_text(specstory_log(TURNS, "Cursor"))
    (here / ".aider.chat.history.md").write_text(aider_log(TURNS))

    assert main(["replay"]) == 0
    told = capsys.readouterr()

    assert told.out.startswith("12 turns: everything on deep → config.yaml")
    assert "read 4 logs (1 of aider, 1 of claude-code, 1 of codex, 1 of specstory), 4 sessions" in told.err
    assert "signs of regret: asked again 4" in told.out
    assert QUICK.words not in told.out, "words are shown only when asked for"


def test_replay_against_the_same_config_changes_nothing(here, capsys):
    write_home(here, TURNS)
    (here / "other.yaml").write_text(SIMULATED)

    assert main(["replay", "--against", "other.yaml", "--json"]) == 0
    total = json.loads(capsys.readouterr().out)["total"]

    assert (total["turns"], total["to_fast"], total["to_deep"], total["seconds_saved"]) == (6, 0, 0, 0.0)


def test_replay_against_another_config_says_what_would_change_and_shows_it_when_asked(here, capsys):
    write_home(here, [QUICK, LONG])
    (here / "other.yaml").write_text(f"policies: [override]\n{SIMULATED}")

    assert main(["replay", "--against", "other.yaml", "--show", "1"]) == 0
    out = capsys.readouterr().out

    assert "moved          0 to fast, 0 to deep" not in out
    assert out.count(QUICK.words) == 1
    assert "fast → deep" in out


def test_replay_of_the_ledger_says_what_it_could_not_read(here, capsys):
    from router.ledger.sqlite import SqliteLedger

    SqliteLedger(here / "test.db", keep_days=1, explain=lambda _: {}, on_failure=lambda *_: None).close()

    assert main(["replay", "--ledger"]) == 0
    told = capsys.readouterr()
    assert told.out == "no turns\n"
    assert "read 0 entries of 0 sessions" in told.err


@pytest.mark.parametrize("command", ["replay", "tune"])
def test_a_ledger_that_lacks_columns_is_refused_in_one_line(here, capsys, command):
    with closing(sqlite3.connect(here / "odd.db")) as database:
        database.execute("CREATE TABLE entries (sequence INTEGER PRIMARY KEY, turn_kind TEXT)")

    assert main([command, "--ledger", "odd.db"]) == 2
    err = capsys.readouterr().err
    assert "odd.db is no ledger that can be read: no such column" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["replay", "tune"])
def test_one_odd_line_never_ends_the_command(here, capsys, command):
    write_home(here, TURNS)
    (here / "odd.jsonl").write_text(claude_log([Told("fix it", ("Bash",), prompt_tokens=778)]).replace("777", "1e308"))
    (here / "rollout-2.jsonl").write_text(
        codex_log(TURNS, id="two") + '{"type": "response_item", "payload": {"type": ["function_call"]}}\n'
    )
    (here / ".aider.chat.history.md").write_text(aider_log([Told("fix it", answer="> ... sent by the server")]))

    assert main([command, "."]) == 0
    assert "read 5 logs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["replay"], "found no session logs"),
        (["replay", "nowhere"], "no such file or folder: nowhere"),
        (["replay", "--ledger"], "no ledger that can be read"),
        (["replay", "config.yaml", "--ledger", "test.db"], "not both"),
        (["replay", "--against", "none.yaml"], "none.yaml"),
        (["tune"], "found no session logs"),
        (["tune", "--ledger"], "no ledger that can be read"),
    ],
)
def test_wrong_usage_is_said_plainly(here, capsys, arguments, said):
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_tune_with_little_history_says_so_and_changes_nothing(here, capsys):
    write_home(here, TURNS)

    assert main(["tune", "--apply"]) == 1
    assert "too little history: 6 turns" in capsys.readouterr().err
    assert (here / "config.yaml").read_text() == SIMULATED


def test_tune_reads_the_logs_and_the_ledger_that_are_there(here, capsys):
    from router.ledger.sqlite import SqliteLedger

    write_home(here, TURNS)
    SqliteLedger(here / "test.db", keep_days=1, explain=lambda _: {}, on_failure=lambda *_: None).close()

    assert main(["tune"]) == 0
    err = capsys.readouterr().err
    assert "read 0 entries" in err
    assert "read 2 logs" in err


def test_tune_shows_the_change_and_writes_nothing_until_told_to(here, capsys):
    logs = here / "logs"
    logs.mkdir()
    write_history(logs)
    (here / "config.yaml").write_text(UNSURE)

    assert main(["tune", "logs"]) == 0
    out = capsys.readouterr().out

    assert "decision.personal_log_odds  0 → " in out
    assert "tier changes    0 of" not in out
    assert "No harm is to be seen on the held-out part." in out
    assert (here / "config.yaml").read_text() == UNSURE


def test_tune_apply_writes_the_fitted_values_and_keeps_the_old_file(here, capsys):
    logs = here / "logs"
    logs.mkdir()
    write_history(logs)
    (here / "config.yaml").chmod(0o640)
    (here / "config.yaml").write_text(f"# mine\n{UNSURE}decision:\n  base_rate: 0.5  # shipped\n")
    assert main(["replay", "logs", "--json"]) == 0
    before = json.loads(capsys.readouterr().out)["total"]["after"]

    assert main(["tune", "logs", "--apply", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)

    text = (here / "config.yaml").read_text()
    assert text.startswith("# mine\n")
    assert f"base_rate: {result['fitted']['base_rate']:g}  # shipped" in text
    assert f"personal_log_odds: {result['fitted']['personal_log_odds']:g}" in text
    assert "base_rate: 0.5  # shipped" in (here / "config.yaml.bak").read_text()
    assert (here / "config.yaml").stat().st_mode & 0o777 == 0o640
    assert main(["check"]) == 0
    capsys.readouterr()
    assert main(["replay", "logs", "--json"]) == 0
    after = json.loads(capsys.readouterr().out)["total"]["after"]
    assert after["regret_per_100"] < before["regret_per_100"]


def test_tune_refuses_what_may_do_harm_unless_forced(here, capsys):
    logs = here / "logs"
    logs.mkdir()
    write_history(logs, 70)
    (here / "config.yaml").write_text(UNSURE)
    for number in range(70, 100):
        turns = [Told(f"fix the typo in part {number}")]
        (logs / f"rollout-{number}.jsonl").write_text(codex_log(turns, BEGAN + timedelta(hours=number), id=f"s{number}"))

    assert main(["tune", "logs", "--apply"]) == 1
    assert "may do harm" in capsys.readouterr().err
    assert (here / "config.yaml").read_text() == UNSURE
    assert main(["tune", "logs", "--apply", "--force"]) == 0
    assert "personal_log_odds" in (here / "config.yaml").read_text()


def test_tune_apply_without_a_file_of_ones_own_says_so(here, capsys):
    logs = here / "logs"
    logs.mkdir()
    write_history(logs)
    (here / "config.yaml").unlink()

    assert main(["tune", "logs", "--apply", "--force"]) == 2
    assert "no config file to write to" in capsys.readouterr().err


_seen: list[str] = []
_is_listening = False


def _listen(event: str, arguments: tuple) -> None:
    if _is_listening and (event in NETWORK or (event == "socket.__new__" and arguments[1] != 1)):
        _seen.append(event)


@pytest.mark.parametrize("command", ["replay", "tune"])
def test_nothing_leaves_the_machine(here, capsys, command):
    """The interpreter itself reports every socket but the loop's own pair; a hook of that kind cannot be taken off again."""
    global _is_listening
    if not _seen and not getattr(sys, "_tandem_listens", False):
        sys.addaudithook(_listen)
        sys._tandem_listens = True
    logs = here / "logs"
    logs.mkdir()
    write_history(logs)
    (logs / "one.jsonl").write_text(claude_log(TURNS))

    _is_listening = True
    try:
        assert main([command, "logs"]) == 0
    finally:
        _is_listening = False

    assert _seen == []


class Screen:
    """Standard error that is a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("has_colour", [True, False])
def test_a_bar_is_drawn_on_a_terminal_and_wiped_at_the_end(monkeypatch, has_colour):
    from router.cli.progress import Progress

    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not has_colour:
        monkeypatch.setenv("NO_COLOR", "1")

    with Progress("replaying", 10) as progress:
        progress.advance(5)

    assert "replaying" in screen.text
    assert "50%" in screen.text
    assert ("\x1b[32m" in screen.text) is has_colour
    assert screen.text.endswith("\r\x1b[K")


def test_elsewhere_no_bar_is_drawn(capsys):
    from router.cli.progress import Progress

    with Progress("replaying", 10) as progress:
        progress.advance(5)

    assert capsys.readouterr().err == ""
