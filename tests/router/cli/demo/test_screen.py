import io

import pytest

from router.cli.demo.account import Sums, account_of
from router.cli.demo.afternoon import Turn
from router.cli.demo.agent import Call, PlayedTurn
from router.cli.demo.screen import Screen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def served(**more):
    row = {"tier": "deep", "at": 0.0, "ttft_ms": 910.0, "duration_ms": 2000.0, "because": "looks long", "outcome": "SERVED"}
    return account_of("go", [{**row, **more}])


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def test_a_turn_is_one_line_with_its_figures_and_the_reason():
    out = io.StringIO()

    Screen(out).show_turn(served())

    assert out.getvalue() == "  deep            1   0.9s   2.0s  looks long\n"


def test_a_long_reason_goes_on_below_itself():
    out = io.StringIO()

    Screen(out).show_turn(served(because="simulated-fast failed (429), so simulated-deep answers: looks like a quick turn"))

    first, second, third = out.getvalue().splitlines()
    assert first.endswith("simulated-fast failed (429), so")
    assert second == " " * 35 + "simulated-deep answers: looks like a quick"
    assert third == " " * 35 + "turn"


def test_a_turn_that_was_abandoned_says_that_you_hung_up():
    out = io.StringIO()

    Screen(out).show_turn(served(outcome="ABANDONED"))

    assert "(you hung up)" in out.getvalue()


def test_a_terminal_shows_the_tier_and_the_clock_while_a_turn_runs(terminal):
    begun = Call()
    begun.start(200, (("x-tandem-tier", "deep"),))
    Screen(terminal).follow(PlayedTurn(Turn("go"), [begun, Call()]))

    assert "\x1b[34m  deep            2          0.0s" in terminal.getvalue()


def test_elsewhere_nothing_is_drawn_while_a_turn_runs():
    out = io.StringIO()
    screen = Screen(out)

    screen.follow(PlayedTurn(Turn("go"), [Call()]))
    screen.wait_for("something")
    screen.clear()

    assert out.getvalue() == ""


def test_no_color_is_obeyed_on_a_terminal(terminal, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    Screen(terminal).show_turn(served())

    assert terminal.getvalue() == "\r\x1b[K  deep            1   0.9s   2.0s  looks long\n"


def test_failed_turns_are_told_with_what_deep_takes_for_them():
    out = io.StringIO()

    Screen(out).show_sums({"always fast": Sums(9, 35, 9, 2, 10.3, 14.0)})

    assert "always fast: 2 turns end with failing tests    10.3s         14.0s         24.3s\n" in out.getvalue()
