"""The demo on a screen of 80 columns: what was typed, then who served it and why. Live on a terminal, plain elsewhere."""

import textwrap
import time
from collections.abc import Mapping
from typing import TextIO

from router.cli.demo.account import Sums, TurnAccount
from router.cli.demo.agent import PlayedTurn
from router.screen.figures import duration
from router.telemetry.colour import BOLD, CLEAR_LINE, DIM, TIER_COLOURS, can_redraw, has_colour, wrap

WIDTH = 80
ARROW = " → "
TANDEM = "Tandem"


class Screen:
    """Prints as things happen. Colour adds, it never carries meaning."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_live = can_redraw(out)
        self._has_colour = has_colour(out)
        self._played: PlayedTurn | None = None
        self._began = 0.0
        self._waits_for = ""

    def show_heading(self, speeds: str) -> None:
        """What is about to be seen."""
        self._print(f"A coding afternoon. Simulated tiers: {speeds}")
        self._print("")
        self._print(self._paint(_columns("tier", "calls", "first", "took") + "because", DIM))

    def show_words(self, words: str) -> None:
        self._waits_for = ""
        first, *more = words.split("\n")
        self._print(self._paint(f"> {first}", BOLD))
        for line in more:
            self._print(self._paint(f"  {line}", BOLD))

    def follow(self, played: PlayedTurn) -> None:
        """Show how this turn goes on, until it is over."""
        if played is not self._played:
            self._played, self._began = played, time.monotonic()
        self.tick()

    def wait_for(self, what: str) -> None:
        """Say what the demo still waits for."""
        self._waits_for = what
        self.tick()

    def tick(self) -> None:
        """Draw what is under way."""
        if not self._is_live:
            return
        line = self._paint(f"  … {self._waits_for}", DIM) if self._waits_for else ""
        if self._played is not None:
            calls = self._played.calls
            tier = next((call.tier for call in reversed(calls) if call.tier), "")
            took = duration(time.monotonic() - self._began)
            line = self._paint(_columns(tier or "…", str(len(calls)), "", took), TIER_COLOURS.get(tier, DIM))
        self._out.write(CLEAR_LINE + line)
        self._out.flush()

    def clear(self) -> None:
        self._played, self._waits_for = None, ""
        self.tick()

    def show_turn(self, turn: TurnAccount) -> None:
        """Who served a turn, and why, by its rows in the ledger."""
        self._played = None
        figures = _columns(
            ARROW.join(turn.tiers), str(len(turn.rows)), duration(turn.first_token_seconds), duration(turn.took_seconds)
        )
        because = f"{turn.because} (you hung up)" if turn.was_hung_up else turn.because
        first, *more = textwrap.wrap(because, WIDTH - len(figures), break_on_hyphens=False)
        self._print(self._paint(figures, TIER_COLOURS[turn.tiers[-1]]) + first)
        for line in more:
            self._print(" " * len(figures) + line)

    def show_sums(self, sums: Mapping[str, Sums]) -> None:
        """Time to done, each way."""
        self._waits_for = ""
        self._print("")
        self._print(self._paint(_sum_line("", "took", "redo by deep", "time to done"), DIM))
        for name, run in sums.items():
            told = f"{name}: {run.on_fast} turns on fast, {run.turns - run.on_fast} on deep" if name == TANDEM else name
            if run.failed:
                told += f": {run.failed} turns end with failing tests"
            redo = _tenths(run.redo_seconds) if run.failed else "-"
            line = _sum_line(told, _tenths(run.took_seconds), redo, _tenths(run.done_seconds))
            self._print(self._paint(line, BOLD) if name == TANDEM else line)
        requests = " + ".join(str(run.requests) for run in sums.values())
        self._print("")
        self._print(self._paint(f"From the ledgers of three routers that ran at once: {requests} requests.", DIM))
        self._print(self._paint("No model was asked: by the script, only deep can make failing tests pass.", DIM))

    def _print(self, line: str) -> None:
        self._out.write(f"{CLEAR_LINE if self._is_live else ''}{line}\n")
        self._out.flush()

    def _paint(self, text: str, colour: str) -> str:
        return wrap(text, colour) if self._has_colour else text


def _columns(tier: str, calls: str, first: str, took: str) -> str:
    return f"  {tier:<11} {calls:>5} {first:>6} {took:>6}  "


def _sum_line(name: str, took: str, redo: str, done: str) -> str:
    return f"{name:<44} {took:>7}  {redo:>12}  {done:>12}"


def _tenths(seconds: float) -> str:
    """A figure of the sums: with its tenths, so that a reader can add them up."""
    return f"{seconds:.1f}s"
