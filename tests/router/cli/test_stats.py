"""`tandem stats`."""

import json
import re
import sqlite3
import time
from contextlib import closing

import pytest

from router.cli import main
from router.contract.caller import Caller
from router.contract.words import Outcome, Tier, TurnKind
from tests.router.cli.recorded import record_turns
from tests.router.past.test_worth import keep
from tests.tools.kept import make_entry
from tests.tools.ledgers import write_ledger


def turn(name: str, tier: Tier, seconds: float, usd: float | None, **more):
    values = {"session": name, "score": 0.5, "decision": keep(tier), **more}
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
    assert rows["spent"] == ["$0.11", "44s"]
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "all on deep, about $0.14 1m20" in lines
    assert "saved, about $0.032 36s" in lines
    assert "redone, 0 turns $0.000 0.0s" in lines
    assert "calls: 1 interrupted, 0 failed, 1 refused" in lines
    assert "$0.032 and about 36 s less than all on deep" in lines
    assert "is an estimate" in out


def test_json_holds_the_same(ledger, capsys):
    assert main(["stats", "--json"]) == 0

    stats = json.loads(capsys.readouterr().out)
    assert stats["total"]["turns"] == 3
    assert stats["by_tier"]["deep"]["calls"] == 2
    savings = stats["savings"]
    assert (savings["turns"], savings["fast_turns"], savings["compared_calls"], savings["complete"]) == (3, 2, 2, True)
    assert savings["spent"] == {"seconds": 44.0, "usd": 0.108}
    assert savings["all_deep"] == {"seconds": 80.0, "usd": 0.14}
    assert savings["saved"] == {"seconds": 36.0, "usd": 0.032}
    assert savings["left_out"] == {"unpriced": 0, "refused": 1}
    assert (stats["interrupted"], stats["refused"]) == (1, 1)


def test_json_of_one_table_is_that_table(ledger, capsys):
    assert main(["stats", "--by", "tier", "--json"]) == 0

    stats = json.loads(capsys.readouterr().out)
    assert (list(stats), stats["by_tier"]["deep"]["calls"]) == (["by_tier"], 2)


def test_markdown_is_several_tables(ledger, capsys):
    assert main(["stats", "--markdown"]) == 0

    out = capsys.readouterr().out
    assert [line.split(" | ")[0] for line in out.splitlines() if "| turns |" in line] == ["| day", "| client", "| tier"]
    assert "| saved, about | $0.032 | 36s |" in out.splitlines()


def test_a_refusal_for_a_spent_budget_blanks_no_figure(home, capsys):
    served = turn("1", Tier.FAST, 1.0, 0.002)
    write_ledger(home / "test.db", served, turn("2", Tier.FAST, 0.0, None, outcome=Outcome.REFUSED, output_tokens=None))

    assert main(["stats"]) == 0
    assert "saved, about $0.008 9.0s" in [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_without_prices_the_money_is_unknown_and_nothing_is_made_up(home, capsys):
    write_ledger(home / "test.db", turn("1", Tier.FAST, 1.0, None))

    assert main(["stats", "--json"]) == 0
    savings = json.loads(capsys.readouterr().out)["savings"]
    assert (savings["all_deep"], savings["left_out"]["unpriced"]) == ({"seconds": 10.0, "usd": None}, 1)


def test_where_one_price_is_missing_what_was_paid_is_marked_as_a_part(home, capsys):
    write_ledger(home / "test.db", turn("1", Tier.FAST, 1.0, 0.25), turn("2", Tier.FAST, 1.0, None))

    assert main(["stats"]) == 0
    assert any(line.split()[:2] == ["spent", "$0.25+"] for line in capsys.readouterr().out.splitlines())


def test_turns_that_expected_nothing_are_not_compared(home, capsys):
    write_ledger(home / "test.db", turn("1", Tier.FAST, 1.0, 0.1, decision="{}"))

    assert main(["stats"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "no estimate of all on deep"


def test_more_than_sixty_days_are_shown_by_month(home, capsys):
    now, day = time.time(), 86_400.0
    entries = [turn(f"{number}", Tier.FAST, 1.0, 0.01, at=now - number * day) for number in range(61)]
    write_ledger(home / "test.db", *entries)

    assert main(["stats"]) == 0
    by_month = [line.split() for line in capsys.readouterr().out.splitlines() if re.match(r"\d{4}-\d\d ", line)]
    assert main(["stats", "--by", "day"]) == 0
    by_day = capsys.readouterr().out.splitlines()[1:]
    assert main(["stats", "--since", "50d"]) == 0
    shown = capsys.readouterr().out

    assert 2 < len(by_month) < 5
    assert sum(int(turns) for _, turns, *_ in by_month) == len(by_day) == 61
    assert len(re.findall(r"^\d{4}-\d\d-\d\d ", shown, re.MULTILINE)) == 50


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
    assert (stats["savings"]["redone"]["moved_up"], replay["regrets"]["moved_up"]) == (1, 1)


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


def test_turns_on_fast_are_shown_by_kind_with_how_they_ended(home, capsys):
    record_turns(home, "fix the typo in the footer", "fix the typo in the header")
    assert main(["wrong", "deep", "req_2"]) == 0
    capsys.readouterr()

    assert main(["stats", "--by", "kind"]) == 0
    titles, typo = capsys.readouterr().out.splitlines()
    assert main(["stats", "--by", "kind", "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("| kind | fast | deep | turns |")
    assert main(["stats", "--json"]) == 0
    kinds = json.loads(capsys.readouterr().out)["kinds"]

    assert re.split(r"  +", titles.strip()) == [
        *("kind", "fast", "deep", "turns", "accepted", "marked", "moved up", "asked for deep", "asked again", "redone")
    ]
    assert typo.split() == ["typo", "simulated-fast", "simulated-deep", "2", "1", "1", "0", "0", "0", "50", "%"]
    assert [(kind["kind"], kind["turns"], kind["accepted"], kind["marked"]) for kind in kinds] == [("typo", 2, 1, 1)]


def test_before_any_turn_has_a_kind_the_table_says_so(ledger, capsys):
    assert main(["stats", "--by", "kind"]) == 1
    assert "no turn that Tandem sent to fast is known by its kind yet" in capsys.readouterr().err


def look(name: str, at: float, usd: float | None = 0.01, before: str = "", **look):
    kept = {
        "v": 3,
        "decided_by": "estimate",
        "look": {"target": "sage", "seconds": 2.5, "cost_usd": usd, **look},
        "look_before": before,
    }
    return make_entry(name, at=at, decision=json.dumps({name: value for name, value in kept.items() if value}))


def test_looks_are_counted_by_day_with_what_became_of_their_objections(home, capsys):
    today = time.time()
    write_ledger(
        home / "test.db",
        look("1", today - 2 * 86_400, end="fine"),
        look("2", today, end="objections", objections=2),
        look("3", today, end="objections", objections=1, before="acted on"),
        look("4", today, usd=None, end="late"),
        make_entry("5", at=today, decision='{"v": 3, "look_before": "waved off"}'),
        make_entry("6", at=today, decision='{"v": 3, "person_text": "look it over"}'),
        make_entry("7", at=today, decision='{"look": broken'),
    )

    assert main(["stats", "--by", "look"]) == 0
    _, first, second, total = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert main(["stats", "--by", "look", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["looks"]

    assert first[1:] == ["1", "1", "0", "0", "0", "0", "2.5", "$0.010"]
    assert second[1:] == ["3", "0", "2", "1", "1", "1", "7.5", "$0.020"]
    assert total == ["total", "4", "1", "2", "1", "1", "1", "10.0", "$0.030"]
    assert [(day["looks"], day["objections"]) for day in told] == [(1, 0), (3, 2)]


def test_without_a_look_it_says_how_to_have_one(ledger, capsys):
    assert main(["stats", "--by", "look"]) == 1

    assert "combine.look: auto in the config switches it on" in capsys.readouterr().err


def test_where_looks_are_on_it_does_not_say_how_to_switch_them_on(ledger, home, capsys):
    config = home / "config.yaml"
    config.write_text(f"{config.read_text()}combine: {{look: auto}}\n")

    assert main(["stats", "--by", "look"]) == 1

    said = capsys.readouterr().err
    assert "deep has looked nothing over in that time" in said
    assert "hint" not in said
