"""What `tandem tune --apply` merges, shows and takes back; and a year of marks, of which none is lost."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from router.cli import main
from router.config.load import load_config
from router.stores.sqlite.migrate import LEDGER, prepare
from router.wiring.build import known_names
from tests.conftest import SIMULATED
from tests.router.cli.recorded import record_turns
from tests.router.cli.told import UNSURE, write_history
from tests.tools.kept import open_entries
from tests.tools.waiting import until

MONTH = 30 * 86_400.0
OLD_SCHEMA = 9
"""That of the version before marks lasted."""
ASKS = (
    "bump the zanzibar version",
    "rename the mulberry button",
    "fix the typo in trombone.md",
    "remove the unused quokka import",
    "change the walrus colour to red",
    "sort the saffron list by name",
    "increase the obsidian timeout",
    "add a comment to platypus.py",
    "undo the marzipan flag",
    "format lantern.json",
    "set the gondola padding to 4",
    "delete the tundra comment",
)
ZANZIBAR, MULBERRY, QUOKKA = ASKS[0], ASKS[1], ASKS[3]


def change(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "test.db")) as database, database:
        for statement in statements:
            database.execute(statement)


def ask(folder: Path, query: str) -> list:
    with closing(sqlite3.connect(folder / "test.db")) as database:
        return database.execute(query).fetchall()


def forget_rows(folder: Path) -> None:
    """All but the marks, as retention does one day."""
    change(folder, "DELETE FROM entries", "DELETE FROM places")


def teach(folder: Path, words: str, first: int, marks: int = 4) -> list[str]:
    names = record_turns(folder, *[words] * marks, first=first)
    for name in names:
        assert main(["wrong", "deep", name]) == 0
    return names


def read_kinds(folder: Path) -> list[dict]:
    return json.loads((folder / "personal.json").read_text())["kinds"]


def decide(capsys, words: str) -> str:
    capsys.readouterr()
    assert main(["explain", "--json", words]) == 0
    return json.loads(capsys.readouterr().out)["tier"]


@pytest.fixture
def taught(home, capsys):
    """A folder where one kind of ask was learned from four marks."""
    teach(home, ZANZIBAR, 1)
    assert main(["tune", "--ledger", "--apply"]) == 0
    capsys.readouterr()
    return home


def test_marks_teach_after_their_rows_are_gone_and_under_other_weights(taught, capsys):
    forget_rows(taught)
    change(taught, "UPDATE misjudged SET decision = json_set(decision, '$.weights', 'others')")
    (taught / "personal.json").unlink()

    assert main(["tune", "--ledger", "--apply"]) == 0

    told = capsys.readouterr()
    assert "read 4 marked turns whose entries are gone" in told.err
    assert "marked turns    0 → 4 of 4 where you said (1 kind of ask)" in told.out
    assert decide(capsys, ZANZIBAR) == "deep"


def test_marks_before_the_time_asked_for_do_not_count_and_what_they_taught_stays(taught, capsys):
    before = read_kinds(taught)
    change(taught, f"UPDATE entries SET at = at - {MONTH}", f"UPDATE misjudged SET asked_at = asked_at - {MONTH}")
    teach(taught, MULBERRY, 11, marks=1)

    assert main(["tune", "--ledger", "--since", "7d", "--apply"]) == 0

    told = capsys.readouterr()
    assert "marked turns    0 → 1 of 1 where you said" in told.out
    assert "2 kinds of ask (1 added, 1 kept from before, whose marks are no longer in the history)" in told.err
    assert before[0] in read_kinds(taught)
    assert [decide(capsys, words) for words in (ZANZIBAR, MULBERRY, QUOKKA)] == [
        "deep",
        "deep",
        "fast",
    ]


def test_a_mark_that_was_taken_back_is_unlearned_though_its_row_is_gone(taught, capsys):
    for number in range(1, 5):
        assert main(["wrong", "fast", f"req_{number}"]) == 0
    forget_rows(taught)
    capsys.readouterr()

    assert main(["tune", "--ledger", "--apply"]) == 0

    assert "0 kinds of ask (1 dropped, whose marks were taken back or contradicted)" in capsys.readouterr().err
    assert decide(capsys, ZANZIBAR) == "fast"


def test_a_table_of_an_older_tandem_is_merged_by_what_its_kinds_are_like(taught, capsys):
    table = json.loads((taught / "personal.json").read_text())
    del table["hashing"]
    (kind,) = table["kinds"]
    other = {"log_odds": 3.0, "marks": 9, "callers": [], "places": {"5": 1.0, "6": 1.0}}
    table["kinds"] = [{name: kind[name] for name in other}, other]
    (taught / "personal.json").write_text(json.dumps(table))

    assert main(["tune", "--ledger", "--apply"]) == 0

    assert "2 kinds of ask (1 changed, 1 kept from before" in capsys.readouterr().err
    assert [(one["marks"], len(one["requests"])) for one in read_kinds(taught)] == [(4, 4), (9, 0)]


def test_what_was_taught_is_listed_with_its_way_its_marks_and_its_day(taught, capsys):
    assert main(["tune", "--show"]) == 0
    shown = capsys.readouterr().out
    assert main(["tune", "--show", "--json"]) == 0
    (kind,) = json.loads(capsys.readouterr().out)["kinds"]

    assert "asks like 4 marked ones  deep" in shown
    assert "local" in shown
    assert "zanzibar" not in shown
    assert (kind["tier"], kind["marks"], kind["callers"], kind["requests"][0]) == ("deep", 4, ["local"], "req_1")
    assert main(["tune", "--forget"]) == 0
    assert main(["tune", "--show"]) == 0
    assert "marks have taught nothing yet" in capsys.readouterr().err


def test_the_last_apply_is_taken_back_and_only_that(taught, capsys):
    first = (taught / "personal.json").read_bytes()
    teach(taught, MULBERRY, 11)
    assert main(["tune", "--ledger", "--apply"]) == 0
    assert decide(capsys, MULBERRY) == "deep"

    assert main(["tune", "--undo"]) == 0

    assert (taught / "personal.json").read_bytes() == first
    assert decide(capsys, MULBERRY) == "fast"
    assert main(["tune", "--undo"]) == 0
    assert "nothing to undo" in capsys.readouterr().err
    assert (taught / "personal.json").read_bytes() == first


def test_the_first_apply_is_taken_back_to_no_table(taught):
    assert (taught / "personal.json.before").stat().st_mode & 0o777 == 0o600
    assert main(["tune", "--undo"]) == 0

    assert not (taught / "personal.json").exists()
    assert not (taught / "personal.json.before").exists()


def test_a_table_that_was_changed_since_is_left(taught, capsys):
    (taught / "personal.json").write_text((taught / "personal.json").read_text() + " ")

    assert main(["tune", "--undo"]) == 1

    assert "left " in capsys.readouterr().err
    assert (taught / "personal.json").exists()


@pytest.mark.parametrize("edited", ["", "# mine\n"])
def test_the_values_of_the_config_are_taken_back_also_where_the_file_was_edited_since(home, capsys, edited):
    (home / "logs").mkdir()
    write_history(home / "logs")
    config = home / "config.yaml"
    config.write_text(UNSURE)
    present = load_config(config, known_names()).config.decision
    assert main(["tune", "logs", "--apply"]) == 0
    assert load_config(config, known_names()).config.decision != present
    config.write_text(config.read_text() + edited)

    assert main(["tune", "--undo"]) == 0

    assert load_config(config, known_names()).config.decision == present
    assert config.read_text().endswith(edited)
    assert (config.read_text() == UNSURE) is (edited == "")


def test_words_that_only_text_tells_outlive_it_once_they_were_learned(home, capsys):
    names = record_turns(home, *[ZANZIBAR] * 4, keeps_text=True)
    change(home, "DELETE FROM places")
    for name in names:
        assert main(["wrong", "deep", name]) == 0
    assert "tandem tune --apply teaches Tandem turns like this one" in capsys.readouterr().err
    assert ask(home, "SELECT count(places) FROM misjudged") == [(0,)]
    assert main(["tune", "--ledger", "--apply"]) == 0
    forget_rows(home)
    (home / "personal.json").unlink()

    assert main(["tune", "--ledger", "--apply"]) == 0

    assert decide(capsys, ZANZIBAR) == "deep"
    assert b"zanzibar" not in (home / "test.db").read_bytes()


def make_old(folder: Path) -> None:
    """Turn the ledger into one of the version before, whose weights were others."""
    path, old = folder / "test.db", folder / "old.db"
    old.touch()
    prepare(old, LEDGER[:OLD_SCHEMA])
    with closing(sqlite3.connect(old)) as database, database:
        database.execute("ATTACH ? AS source", (str(path),))
        for table in ("entries", "places"):
            names = ", ".join(name for _, name, *_ in database.execute(f"PRAGMA main.table_info({table})"))
            database.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM source.{table}")
        database.execute("UPDATE entries SET decision = json_set(decision, '$.weights', 'others')")
        database.execute("INSERT INTO misjudged SELECT request_id, at, should_be FROM source.misjudged")
    for file in folder.glob("test.db*"):
        file.unlink()
    old.rename(path)


async def pass_a_month(folder: Path) -> None:
    """Everything is a month older, and the router was started again: it deletes what is older than 29 days."""
    await start_once(folder, "SELECT count(*) FROM sqlite_master WHERE name = 'upkeep'", 1)
    change(
        folder,
        f"UPDATE entries SET at = at - {MONTH}",
        f"UPDATE places SET at = at - {MONTH}",
        f"UPDATE misjudged SET at = at - {MONTH}, asked_at = asked_at - {MONTH}",
    )
    await start_once(folder, "SELECT count(*) FROM entries", 0)


async def start_once(folder: Path, query: str, expected: int) -> None:
    """Run a ledger's upkeep until the query says that it is done."""
    failures: list = []
    store = open_entries(folder / "test.db", failures, keep_days=29)
    await until(lambda: ask(folder, query) == [(expected,)])
    await store.close()
    assert failures == []


def test_of_a_year_of_marks_tuned_monthly_over_two_versions_every_one_counts(folder, capsys):
    (folder / "config.yaml").write_text(SIMULATED)
    for number, words in enumerate(ASKS):
        teach(folder, words, 10 * number + 1, marks=2)
        if number == 0:
            make_old(folder)
        assert main(["tune", "--ledger", "--apply"]) == 0
        prepare(folder / "test.db", LEDGER)
        asyncio.run(pass_a_month(folder))
        capsys.readouterr()
    change(folder, "UPDATE misjudged SET decision = json_set(decision, '$.weights', 'others') WHERE request_id < 'req_5'")
    learned = read_kinds(folder)

    assert main(["tune", "--ledger", "--apply"]) == 0

    assert f"marked turns    0 → 24 of 24 where you said ({len(ASKS)} kinds of ask)" in capsys.readouterr().out
    assert [decide(capsys, words) for words in (ASKS[0], ASKS[-1], "what does git rebase do?")] == ["deep", "deep", "fast"]
    marked = {name for (name,) in ask(folder, "SELECT request_id FROM misjudged")}
    assert {name for kind in learned for name in kind["requests"]} == marked
