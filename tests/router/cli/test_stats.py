"""`tandem stats`."""

import json
import sqlite3
from contextlib import closing

import pytest

from router.cli import main
from router.cli.stats import regret_rows
from router.contract.caller import Caller
from router.contract.words import Outcome, Tier, TurnKind
from tests.router.cli.recorded import record_turns
from tests.router.past.test_sums import keep
from tests.tools.kept import make_entry
from tests.tools.ledgers import write_ledger


def turn(name: str, tier: Tier, seconds: float, usd: float | None, **more):
    values = {"session": name, "score": 0.5, "decision": keep(), **more}
    return make_entry(name, tier=tier, duration_ms=seconds * 1000, cost_usd=usd, ttft_ms=500.0, **values)


@pytest.fixture
def ledger(home):
    return write_ledger(
        home / "test.db",
        turn("1", Tier.FAST, 1.0, 0.002),
        turn("2", Tier.FAST, 3.0, 0.006, client="aider"),
        turn("3", Tier.DEEP, 30.0, 0.07),
        turn("3b", Tier.DEEP, 10.0, 0.03, session="3", turn_kind=TurnKind.TOOL_LOOP, outcome=Outcome.ABANDONED),
        make_entry("4", tier=None, because=None, session=None, outcome=Outcome.REFUSED),
    )


def test_turns_are_summed_by_day_client_and_tier_and_compared(ledger, capsys):
    assert main(["stats"]) == 0

    out = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip()}
    assert rows["aider"] == ["1", "1", "10", "5", "$0.006", "3.0s", "0.5s"]
    assert rows["fast"] == ["2", "2", "20", "10", "$0.008", "4.0s", "0.5s"]
    assert rows["deep"] == ["1", "2", "20", "10", "$0.10", "40s", "0.5s"]
    assert rows["total"] == ["3", "4", "40", "20", "$0.11", "44s", "0.5s"]
    assert rows["as"] == ["it", "was", "$0.11", "44s", "$0.11", "1m26", "10.0"]
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "all on deep, about $0.14 1m20 $0.14 1m20 0.0" in lines
    assert "all on fast, about $0.028 8.0s $0.049 1m14 15.0" in lines
    assert "Assumed: fast's first answer is wrong in 5 % of quick and 25 % of long turns" in out
    assert "signs of regret: 1 interrupted, 0 moved up, 0 marked wrong, 0 asked for a tier" in out
    assert "0 calls failed, 1 refused" in out
    assert "are estimates" in out


def test_what_fast_saved_is_the_difference_to_all_on_deep_and_named_with_how_sure_it_is(ledger, capsys):
    assert main(["stats", "--json"]) == 0
    stats = json.loads(capsys.readouterr().out)
    assert main(["stats"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]

    was, deep, regret = stats["estimates"]["as_it_was"], stats["estimates"]["all_deep"], stats["regret"]
    assert regret["figures"]["saved_seconds"]["value"] == deep["seconds"] - was["seconds"] == 36.0
    assert regret["figures"]["saved_usd"]["value"] == pytest.approx(deep["usd"] - was["usd"])
    assert (regret["turns"], regret["complete"], regret["figures"]["saved_seconds"]["rows"]) == (3, True, ["2", "1"])
    assert "time that fast saved 36s 2 estimated" in lines
    assert "tokens after an interrupt, at most 5 1 estimated" in lines


def test_json_holds_the_same(ledger, capsys):
    assert main(["stats", "--json"]) == 0

    stats = json.loads(capsys.readouterr().out)
    assert stats["total"]["turns"] == 3
    assert stats["by_tier"]["deep"]["calls"] == 2
    assert stats["estimates"]["compared_turns"] == 3
    assert stats["estimates"]["all_deep"]["seconds"] == pytest.approx(80.0)
    assert stats["estimates"]["assumed"] == {"fails_quick": 0.05, "fails_long": 0.25, "failure_seconds": 120.0}
    assert stats["estimates"]["as_it_was"]["redo_seconds"] == pytest.approx(0.15 * (2 * 120 + 40))
    assert stats["estimates"]["all_fast"]["redo_seconds"] == pytest.approx(0.15 * (3 * 120 + 80))
    assert stats["regrets"]["interrupted"] == 1


def test_markdown_is_several_tables(ledger, capsys):
    assert main(["stats", "--markdown"]) == 0

    out = capsys.readouterr().out
    assert [line.split(" | ")[0] for line in out.splitlines() if "| turns |" in line] == ["| day", "| client", "| tier"]
    assert "| time that fast saved | 36s | 2 | estimated |" in out.splitlines()


def test_without_prices_the_money_is_unknown_and_nothing_is_made_up(home, capsys):
    write_ledger(home / "test.db", turn("1", Tier.FAST, 1.0, None, decision=keep(has_price=False)))

    assert main(["stats", "--json"]) == 0
    estimates = json.loads(capsys.readouterr().out)["estimates"]
    assert (estimates["all_deep"]["usd"], estimates["all_fast"]["usd"]) == (None, None)


def test_where_one_price_is_missing_what_was_paid_is_marked_as_a_part(home, capsys):
    write_ledger(home / "test.db", turn("1", Tier.FAST, 1.0, 0.25), turn("2", Tier.FAST, 1.0, None))

    assert main(["stats"]) == 0
    assert any(line.split()[:4] == ["as", "it", "was", "$0.25+"] for line in capsys.readouterr().out.splitlines())


def test_turns_that_expected_nothing_are_not_compared(home, capsys):
    write_ledger(home / "test.db", turn("1", Tier.FAST, 1.0, 0.1, decision="{}"))

    assert main(["stats"]) == 0
    assert "all on deep" not in capsys.readouterr().out


def test_stats_and_replay_count_the_same_turns_and_moves(folder, capsys):
    record_turns(folder, "fix the typo", "rename a to b", "add a test for it", "fix the other typo", calls=3)
    with closing(sqlite3.connect(folder / "test.db")) as database, database:
        database.execute("UPDATE entries SET outcome = 'FAILED' WHERE id = 'req_1'")
        database.execute("UPDATE entries SET outcome = 'SUPERSEDED' WHERE id = 'req_2'")
        database.execute("UPDATE entries SET session = 'begun before' WHERE id = 'req_call_1'")
        decided = 'decision = replace(decision, \'"tier":"fast"\', \'"tier":"deep"\')'
        database.execute(f"UPDATE entries SET tier = 'deep', target = 'simulated-deep', {decided} WHERE id = 'req_call_3'")

    assert main(["stats", "--json"]) == 0
    stats = json.loads(capsys.readouterr().out)
    assert main(["replay", "--ledger", "--json"]) == 0
    replay = json.loads(capsys.readouterr().out)

    assert (stats["total"]["turns"], replay["total"]["turns"]) == (2, 2)
    assert (stats["regrets"]["moved_up"], replay["regrets"]["moved_up"]) == (1, 1)


def test_what_is_assumed_of_fast_can_be_said_otherwise(ledger, capsys):
    assert main(["stats", "--json", "--fails-quick", "0", "--fails-long", "1", "--failure-seconds", "10"]) == 0

    estimates = json.loads(capsys.readouterr().out)["estimates"]
    assert estimates["assumed"] == {"fails_quick": 0.0, "fails_long": 1.0, "failure_seconds": 10.0}
    assert estimates["as_it_was"]["redo_seconds"] == pytest.approx(0.5 * (2 * 10 + 40))


ODD = ("<script>alert(1)</script>", "=cmd()", "a\x1b[2Jb|c")


def test_a_caller_has_figures_shares_and_errors_of_its_own(home, capsys):
    write_ledger(
        home / "test.db",
        *(turn(f"a{number}", Tier.FAST, 1.0, 0.01, caller=Caller("ada")) for number in range(3)),
        turn("a4", Tier.DEEP, 1.0, 0.01, caller=Caller("ada")),
        turn("a5", Tier.FAST, 1.0, None, caller=Caller("ada"), outcome=Outcome.FAILED),
        make_entry("b", Caller("bob"), tier=None, because=None, outcome=Outcome.REFUSED),
    )

    assert main(["stats", "--by", "caller"]) == 0

    title, ada, bob = (line.split("  ") for line in capsys.readouterr().out.splitlines())
    assert [cell.strip() for cell in title if cell][-3:] == ["fast", "deep", "errors"]
    assert [cell.strip() for cell in ada if cell][-3:] == ["75 %", "25 %", "1"]
    assert [*[cell.strip() for cell in bob if cell][:3], bob[-1].strip()] == ["bob", "0", "0", "1"]
    assert main(["stats", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["by_caller"]
    figures = ("turns", "cost_usd", "fast_turns", "deep_turns", "failed", "refused")
    assert {name: [of[figure] for figure in figures] for name, of in found.items()} == {
        "ada": [4, 0.04, 3, 1, 1, 0],
        "bob": [0, None, 0, 0, 0, 1],
    }


@pytest.mark.parametrize("command", ["stats --by caller", "stats --by caller --markdown", "log", "log --markdown"])
def test_an_odd_name_of_a_caller_neither_moves_the_cursor_nor_becomes_html(home, capsys, command):
    write_ledger(
        home / "test.db", *(turn(f"{number}", Tier.FAST, 1.0, 0.01, caller=Caller(name)) for number, name in enumerate(ODD))
    )

    assert main(command.split()) == 0

    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "cmd()" in out
    if "--markdown" in command:
        assert "<" not in out
        assert len({line.replace("\\|", "").count("|") for line in out.splitlines()}) == 1


@pytest.mark.parametrize(
    ("value", "unit", "count", "shown"),
    [
        (75.0, "seconds", 2, "1m15"),
        (-75.0, "seconds", 2, "-1m15"),
        (0.25, "usd", 2, "$0.25"),
        (-0.25, "usd", 2, "-$0.25"),
        (0.0, "usd", 0, "-"),
        (1_200, "tokens", 2, "1.2k"),
    ],
)
def test_a_figure_of_regret_is_written_with_its_sign_and_unit(value, unit, count, shown):
    name = {"seconds": "saved_seconds", "usd": "saved_usd", "tokens": "after_interrupt_tokens"}[unit]
    figure = {"value": value, "unit": unit, "count": count, "sure": "estimated"}

    ((_, written, number, sure),) = regret_rows({"figures": {name: figure}})

    assert (written, number, sure) == (shown, str(count), "estimated")


def test_how_far_back_regret_goes_is_said_only_where_that_is_less_than_asked_for(ledger, capsys, monkeypatch):
    assert main(["stats"]) == 0
    assert "Regret is that of the newest" not in capsys.readouterr().out

    monkeypatch.setattr("router.past.regret.MAX_ROWS", 2)
    assert main(["stats"]) == 0
    assert "Regret is that of the newest 10,000 rows, since" in capsys.readouterr().out
