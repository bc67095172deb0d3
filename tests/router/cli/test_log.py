"""`tandem log`."""

import asyncio
import json
import time
import urllib.request

import pytest

from router.cli import main
from router.contract.caller import Caller
from router.contract.words import Outcome, Tier, TurnKind
from router.past.turns import Begun, Turns
from tests.router.cli.test_serve import start_server
from tests.tools.kept import make_entry
from tests.tools.ledgers import write_ledger
from tests.tools.waiting import until

AT = 1_700_000_000.0
CLOCK = time.strftime("%H:%M", time.localtime(AT))
LOOP = TurnKind.TOOL_LOOP
QUICK = make_entry(
    "1", at=AT, session="codex:0199-3f2a", because="looks like a quick edit: rename", ttft_ms=200.0, cost_usd=0.004
)
CALL = make_entry("2", at=AT, session="codex:0199-3f2a", turn_kind=LOOP, because="call 1", cost_usd=0.0, duration_ms=800.0)
UP = make_entry("3", at=AT, session="codex:0199-3f2a", turn_kind=LOOP, because="2 calls failed", tier=Tier.DEEP, cost_usd=0.1)
REFUSED = make_entry(
    "4", at=AT, session=None, client=None, tier=None, because=None, turn_kind=None, outcome=Outcome.REFUSED, status=404,
    error="model_not_found", model="gpt-9\x1b[2J",
)  # fmt: skip


@pytest.fixture
def _then(monkeypatch):
    """A minute after those turns: a line has its day where that is another one than today."""
    monkeypatch.setattr(time, "time", lambda: AT + 60)


@pytest.fixture
def ledger(home, _then):
    return write_ledger(home / "test.db", QUICK, CALL, UP, REFUSED)


def test_a_turn_is_a_line(ledger, capsys):
    assert main(["log"]) == 0

    title, quick, refused = capsys.readouterr().out.splitlines()
    assert title.split() == ["time", "client", "turn", "tier", "calls", "first", "took", "in", "→", "out", "cost", "why"]
    assert quick == (
        f"{CLOCK}  codex 3f2a        1  DEEP ↑      3   0.2s   1.0s      30 → 15    $0.10  moved up at call 3: 2 calls failed"
    )
    assert (
        refused
        == f'{CLOCK}  -                 -  404                                                model "gpt-9?[2J" is not in models:'
    )


@pytest.mark.parametrize("asked", ["1", "20"])
def test_a_turn_has_the_number_that_it_had_while_it_ran(home, capsys, asked):
    """Tier lines, which the router answers, and asks that failed and were sent again do not count."""
    said, failed = {"tier": None, "because": None}, {"outcome": Outcome.FAILED, "status": 502, "output_tokens": None}
    kinds = ({}, said, {}, failed, failed, {}, said, {"outcome": Outcome.SUPERSEDED, "output_tokens": None}, {})
    write_ledger(home / "test.db", *(make_entry(str(number), at=AT, session="s", **more) for number, more in enumerate(kinds)))
    turns = Turns()
    for number, more in enumerate(kinds):
        line = make_entry(str(number), at=AT, session="s", **more).line
        if line.tier is not None:
            last = turns.begin(Begun(line.id, AT, line.turn_kind, line.tier, "because", line.caller, "s"))
        turns.end(line)

    assert main(["log", "--json", "-n", asked]) == 0

    assert json.loads(capsys.readouterr().out)[-1]["turn"] == last.number == 5


def test_a_tier_line_is_no_turn_of_its_session(home, capsys):
    write_ledger(home / "test.db", QUICK, make_entry("8", at=AT, session="codex:0199-3f2a", tier=None, because=None))

    assert main(["log", "--sessions", "--json"]) == 0

    assert json.loads(capsys.readouterr().out)[0]["turns"] == 1


def test_so_many_turns_are_shown_as_were_asked_for(ledger, capsys):
    assert main(["log", "-n", "1"]) == 0

    assert len(capsys.readouterr().out.splitlines()) == 2


def test_json_holds_every_figure(ledger, capsys):
    assert main(["log", "--json"]) == 0

    turn, refused = json.loads(capsys.readouterr().out)
    assert (turn["session"], turn["turn"], turn["tier"], turn["moved_up"], turn["calls"]) == (
        "codex:0199-3f2a",
        1,
        "deep",
        True,
        3,
    )
    assert turn["cost_usd"] == pytest.approx(0.104)
    assert (refused["status"], refused["tier"], refused["outcome"]) == (404, None, "REFUSED")


def test_markdown_is_a_table(ledger, capsys):
    assert main(["log", "--markdown"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("| time | client | turn | tier |")
    assert "deep ↑" in lines[2]
    assert len({line.count(" | ") for line in lines}) == 1


@pytest.mark.usefixtures("_then")
def test_turns_of_other_days_have_their_date(home, capsys):
    write_ledger(home / "test.db", make_entry("1", at=AT - 3 * 86_400), make_entry("2", at=AT))

    assert main(["log"]) == 0
    assert all(line[2] == "-" for line in capsys.readouterr().out.splitlines()[1:])
    assert main(["log", "--since", "2h"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_turn_is_there_soon_after_its_answer(here, capsys):
    server = start_server(here)
    url = json.loads(server.stderr.readline())["url"]
    for number in (1, 2, 3):
        body = json.dumps({"model": "auto", "messages": [{"role": "user", "content": "rename divide to div"}]}).encode()
        request = urllib.request.Request(f"{url}/v1/chat/completions", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            answer.read()

        asyncio.run(until(lambda lines=1 + number: main(["log"]) == 0 and len(capsys.readouterr().out.splitlines()) == lines))
    server.terminate()
    assert server.wait(20) == 0
    server.stderr.close()


@pytest.mark.usefixtures("_then")
def test_callers_are_named_only_where_there_are_several_and_can_be_asked_for(home, capsys):
    of_ada = make_entry("5", Caller("ada"), at=AT, session="s", because="looks like a quick edit")
    write_ledger(home / "test.db", QUICK, of_ada)

    assert main(["log"]) == 0
    title, first, second = capsys.readouterr().out.splitlines()
    assert title.split()[:3] == ["time", "caller", "client"]
    assert [line.split()[1] for line in (first, second)] == ["local", "ada"]
    assert main(["log", "--caller", "ada"]) == 0
    title, _ = capsys.readouterr().out.splitlines()
    assert title.split()[:2] == ["time", "client"]
    assert main(["log", "--caller", "ada", "--json"]) == 0
    assert [turn["caller"] for turn in json.loads(capsys.readouterr().out)] == ["ada"]
    assert main(["log", "--caller", "eve"]) == 1
    assert capsys.readouterr().err == 'no turns of "eve" in the ledger yet\n'


@pytest.mark.usefixtures("_then")
def test_json_names_the_background_job_that_a_turn_belongs_to(home, capsys):
    write_ledger(home / "test.db", make_entry("1", at=AT, job="resp_1"), make_entry("2", at=AT, session="other"))

    assert main(["log", "--json"]) == 0

    assert [turn["job"] for turn in json.loads(capsys.readouterr().out)] == ["resp_1", None]


@pytest.fixture
def sessions(home):
    return write_ledger(
        home / "test.db",
        make_entry("1", session="codex:0199-3f2a", cost_usd=0.25),
        make_entry("2", session="codex:0199-3f2a", turn_kind=LOOP, tier=Tier.DEEP, cost_usd=None),
        make_entry("3", session="claude-code:b81c", client="claude-code", tier=Tier.DEEP, cost_usd=0.5, input_tokens=84_000),
    )


@pytest.mark.usefixtures("sessions")
def test_a_session_is_a_line_and_the_newest_is_last(capsys):
    assert main(["log", "--sessions"]) == 0

    title, codex, claude = (line.split() for line in capsys.readouterr().out.splitlines())
    assert title == ["client", "first", "last", "turns", "fast", "deep", "moved", "calls", "in", "out", "cost", "took"]
    assert codex[:2] + codex[6:] == ["codex", "3f2a", "1", "1", "0", "1", "2", "20", "10", "$0.25+", "0.2s"]
    assert claude[:2] + claude[6:] == ["claude", "b81c", "1", "0", "1", "0", "1", "84k", "5", "$0.50", "0.1s"]


@pytest.mark.usefixtures("sessions")
def test_sessions_are_given_to_programs_and_pages(capsys):
    assert main(["log", "--sessions", "--json", "-n", "1"]) == 0
    (session,) = json.loads(capsys.readouterr().out)
    assert (session["session"], session["deep"], session["cost_usd"]) == ("claude-code:b81c", 1, 0.5)

    assert main(["log", "--sessions", "--markdown", "-n", "1"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("| client | first | last | turns |")
    assert len(told.out.splitlines()) == 3
