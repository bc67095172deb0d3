"""`tandem replay` as a person meets it."""

import sqlite3
import sys
from contextlib import closing

import pytest

from router.cli import main
from tests.router.cli.told import TURNS, write_history
from tests.tools.histories import Told, claude_log, codex_log, write_home

NETWORK = ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg")


def test_a_ledger_that_lacks_tables_is_refused_in_one_line(home, capsys):
    with closing(sqlite3.connect(home / "odd.db")) as database:
        database.execute("CREATE TABLE entries (sequence INTEGER PRIMARY KEY, turn_kind TEXT)")

    assert main(["replay", "--ledger", "odd.db"]) == 2
    err = capsys.readouterr().err
    assert "odd.db: not a usable ledger: no such table" in err
    assert err.count("\n") == 1


def test_one_odd_line_never_ends_the_command(home, capsys):
    write_home(home, TURNS)
    (home / "odd.jsonl").write_text(claude_log([Told("fix it", ("Bash",), prompt_tokens=778)]).replace("777", "1e308"))
    (home / "rollout-2.jsonl").write_text(
        codex_log(TURNS, id="two") + '{"type": "response_item", "payload": {"type": ["function_call"]}}\n'
    )

    assert main(["replay", "."]) == 0
    assert "read 4 logs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["replay"], "found no session logs"),
        (["replay", "nowhere"], "no such file or folder: nowhere"),
        (["replay", "--ledger"], "there is no ledger yet"),
        (["replay", "config.yaml", "--ledger", "test.db"], "not both"),
        (["replay", "--against", "none.yaml"], "none.yaml"),
    ],
)
def test_wrong_usage_is_said_plainly(home, capsys, arguments, said):
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


_seen: list[str] = []
_is_listening = False


def _listen(event: str, arguments: tuple) -> None:
    if _is_listening and (event in NETWORK or (event == "socket.__new__" and arguments[1] != 1)):
        _seen.append(event)


def test_nothing_leaves_the_machine(home, capsys):
    """The interpreter itself reports every socket but the loop's own pair; a hook of that kind cannot be taken off again."""
    global _is_listening
    if not _seen and not getattr(sys, "_tandem_listens", False):
        sys.addaudithook(_listen)
        sys._tandem_listens = True
    logs = home / "logs"
    logs.mkdir()
    write_history(logs)
    (logs / "one.jsonl").write_text(claude_log(TURNS))

    _is_listening = True
    try:
        assert main(["replay", "logs"]) == 0
    finally:
        _is_listening = False

    assert _seen == []
