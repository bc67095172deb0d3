"""What the commands that look back share."""

import argparse
import re
import shutil
import time
from contextlib import closing
from datetime import datetime

import pytest

from router.cli import Ended, main
from router.cli.past.looking import find_ledger, read_since
from router.cli.past.sources import LedgerPast
from router.stores.sqlite.files import connect
from router.stores.sqlite.schemas import LEDGER
from tests.conftest import SIMULATED
from tests.router.cli.recorded import record_turns
from tests.tools.kept import make_entry
from tests.tools.ledgers import write_ledger
from tests.tools.read_only import run_read_only

COMMANDS = ("log", "log --sessions", "stats")
ALL = (*COMMANDS, "why", "wrong")


@pytest.mark.parametrize("command", ALL)
def test_no_ledger_in_the_config_is_said_with_a_hint(here, capsys, command):
    (here / "config.yaml").write_text(SIMULATED.replace("path: test.db", "path: null"))

    assert main([*command.split()]) == 1
    assert "set ledger.path" in capsys.readouterr().err


@pytest.mark.parametrize("command", ALL)
def test_a_file_that_is_no_ledger_is_said_and_left_alone(home, capsys, command):
    (home / "test.db").write_text("something else")

    assert main([*command.split()]) == 1
    assert "not a usable ledger" in capsys.readouterr().err
    assert (home / "test.db").read_text() == "something else"


@pytest.mark.parametrize("command", [*ALL, "replay --ledger test.db"])
def test_a_ledger_of_a_newer_tandem_is_refused_with_the_copy_that_this_one_can_read(home, capsys, command):
    record_turns(home, "fix the typo")
    shutil.copy(home / "test.db", home / "test.db.before-99")
    with closing(connect(home / "test.db")) as database:
        database.execute("PRAGMA user_version = 99")

    assert main([*command.split()]) in (1, 2)

    said = capsys.readouterr().err
    assert f"test.db was written by a newer Tandem (schema 99 > {LEDGER.newest})\n  hint: use that Tandem, or" in said
    assert re.search(r"  mv \S*test\.db \S*test\.db\.newer && mv \S*test\.db\.before-99 \S*test\.db\n", said)


@pytest.mark.parametrize("command", ALL)
def test_a_ledger_that_is_not_there_is_said_and_not_made(home, capsys, command):
    assert main([*command.split()]) == 1
    assert "test.db: there is no ledger yet" in capsys.readouterr().err
    assert not (home / "test.db").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_ledger_and_an_empty_time_say_so(home, capsys, command):
    write_ledger(home / "test.db")

    assert main([*command.split()]) == 1
    assert "no turns in the ledger yet" in capsys.readouterr().err
    assert main([*command.split(), "--since", "1h"]) == 1
    assert "no turns in that time" in capsys.readouterr().err


@pytest.mark.parametrize("command", ALL)
def test_a_wrong_config_is_reported(here, capsys, command):
    (here / "config.yaml").write_text("nonsense: 1")

    assert main([*command.split()]) == 2
    assert "nonsense" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_json_and_markdown_exclude_each_other(here, capsys, command):
    with pytest.raises(SystemExit):
        main([*command.split(), "--json", "--markdown"])


@pytest.mark.parametrize("command", ALL)
def test_whoever_looks_back_needs_no_key(here, capsys, command):
    record_turns(here, "fix the typo")
    target = "{name: t, adapter: openai_http, base_url: 'http://127.0.0.1:9/v1', model: m, api_key: 'env:NO_SUCH_KEY'}"
    tiers = f"{{fast: {{targets: [{target}]}}, deep: {{targets: [{target.replace('t,', 'u,', 1)}]}}}}"
    (here / "config.yaml").write_text(f"tiers: {tiers}\nledger: {{path: test.db}}\n")

    assert main([*command.split()]) == 0
    assert "quick edit" in capsys.readouterr().out or command in ("log --sessions", "stats")


def test_a_turn_is_found_in_the_ledger_or_it_is_said_why_there_is_none(here):
    record_turns(here, "fix the typo")
    past = LedgerPast(find_ledger(argparse.Namespace(config=None)))

    assert past.find_turn(None).id == "req_1"
    with pytest.raises(Ended, match="no request req_9 in"):
        past.find_turn("req_9")


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"because": "replayed from req_1"}, "replayed from req_1"),
        ({"because": None, "outcome": "REFUSED", "error": "idempotency_mismatch"}, "idempotency_mismatch"),
        ({"because": None}, "served"),
    ],
    ids=["answered here", "refused", "no word"],
)
def test_of_a_request_without_a_decision_it_is_said_what_became_of_it(here, row, why):
    path = write_ledger(here / "l.db", make_entry("req_7", decision=None, **row))

    with pytest.raises(Ended, match=f"no tier was chosen for req_7: {why}"):
        LedgerPast(path).find_turn("req_7")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1_800), ("2h", 7_200), ("7d", 604_800), ("2w", 1_209_600), (" 2H ", 7_200)]
)
def test_a_time_ago_is_understood(text, seconds):
    assert read_since(text) == pytest.approx(time.time() - seconds, abs=5)


def test_a_day_begins_at_midnight_here():
    assert read_since("2026-11-01") == datetime(2026, 11, 1).timestamp()
    assert read_since("2026-11-01 13:30") == datetime(2026, 11, 1, 13, 30).timestamp()


@pytest.mark.parametrize("text", ["", "yesterday", "7", "-7d", "2026-13-01", "d", "1.5h", "99999999d"])
def test_anything_else_is_refused_with_examples(text):
    with pytest.raises(argparse.ArgumentTypeError, match="30m, 2h, 7d"):
        read_since(text)


def test_a_ledger_on_a_read_only_file_system_is_read(home):
    decision = {"v": 3, "tier": "fast", "targets": [], "decided_by": "estimate", "prompt_tokens": 9, "usd_per_second": 0.01}
    write_ledger(home / "test.db", {"at": time.time(), "decision": decision})

    found = {command: run_read_only(home, *command.split()) for command in (*COMMANDS, "why --json")}

    assert {command: (done.returncode, done.stderr) for command, done in found.items()} == dict.fromkeys(found, (0, ""))
    assert "a quick edit" in found["log"].stdout
    assert sorted(file.name for file in home.iterdir() if file.name.startswith("test.db")) == ["test.db"]


def test_rows_in_a_log_on_a_read_only_file_system_are_not_passed_over(home):
    write_ledger(home / "full.db")
    with closing(connect(home / "full.db")) as database:
        database.execute("CREATE TABLE more (a)")
        for end in ("", "-wal"):
            shutil.copy(home / f"full.db{end}", home / f"test.db{end}")

    done = run_read_only(home, "log")

    assert done.returncode == 1
    assert "its newest rows are in test.db-wal, and the folder is read-only: copy both files" in done.stderr
