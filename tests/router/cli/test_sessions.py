"""`tandem sessions`."""

import json

import pytest

from router.cli import main
from router.contract.words import Tier, TurnKind
from tests.tools.kept import make_entry
from tests.tools.ledgers import write_ledger


@pytest.fixture
def ledger(home):
    return write_ledger(
        home / "test.db",
        make_entry("1", session="codex:0199-3f2a", cost_usd=0.25),
        make_entry("2", session="codex:0199-3f2a", turn_kind=TurnKind.TOOL_LOOP, tier=Tier.DEEP, cost_usd=None),
        make_entry("3", session="claude-code:b81c", client="claude-code", tier=Tier.DEEP, cost_usd=0.5, input_tokens=84_000),
    )


def test_a_session_is_a_line_and_the_newest_is_last(ledger, capsys):
    assert main(["sessions"]) == 0

    title, codex, claude = (line.split() for line in capsys.readouterr().out.splitlines())
    assert title == ["client", "first", "last", "turns", "fast", "deep", "moved", "calls", "in", "out", "cost", "took"]
    assert codex[:2] + codex[6:] == ["codex", "3f2a", "1", "1", "0", "1", "2", "20", "10", "$0.25+", "0.2s"]
    assert claude[:2] + claude[6:] == ["claude", "b81c", "1", "0", "1", "0", "1", "84k", "5", "$0.50", "0.1s"]


def test_json_has_the_whole_name(ledger, capsys):
    assert main(["sessions", "--json", "-n", "1"]) == 0

    (session,) = json.loads(capsys.readouterr().out)
    assert (session["session"], session["deep"], session["cost_usd"]) == ("claude-code:b81c", 1, 0.5)


def test_markdown_is_a_table(ledger, capsys):
    assert main(["sessions", "--markdown"]) == 0

    assert capsys.readouterr().out.startswith("| client | first | last | turns |")
