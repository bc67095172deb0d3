"""Finding the history, and reading it with a progress bar."""

import argparse
import contextlib
import gc
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from router.cli import Ended
from router.cli.common import say
from router.cli.past.looking import add_since_argument
from router.cli.progress import Progress
from router.config.load import LoadedConfig
from router.contract.stores import StoreUnusable
from router.past.cases import Case, LedgerTally, cases_of, read_ledger
from router.past.logs import LogFile, find_logs, read_logs, usual_places
from router.past.logs.lines import Tally
from router.stores.sqlite.past import SqliteEntryReader


def add_history_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "logs",
        nargs="*",
        metavar="LOG",
        help="logs of Codex or Claude Code (default: their folders)",
    )
    parser.add_argument("--ledger", nargs="?", const="", metavar="FILE", help="read the ledger (default: ledger.path)")
    add_since_argument(parser)


@dataclass(slots=True)
class PastFiles:
    """The history that was found."""

    logs: list[LogFile] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    ledger: Path | None = None
    recorded: list[Case] = field(default_factory=list)
    """Turns of the ledger."""
    ledger_tally: LedgerTally = field(default_factory=LedgerTally)
    since: float = 0.0

    def cases(self, name: str) -> Iterator[Case]:
        """Every turn, with progress in bytes of logs or turns of a ledger."""
        has_logs = bool(self.logs)
        with Progress(name, sum(log.size_bytes for log in self.logs) if has_logs else len(self.recorded)) as progress:
            self.tally.advance = progress.advance
            told = cases_of(read_logs(self.logs, self.tally))
            for turns, case in enumerate(chain(told, self.recorded), start=1):
                progress.note = f"{turns} turns"
                progress.advance(0 if has_logs else 1)
                if not self.since or (case.at is not None and case.at >= self.since):
                    yield case

    def say(self) -> None:
        """Print what was read and skipped. Raises `Ended` if none of the given files is a readable log."""
        if self.ledger is not None:
            seen = self.ledger_tally
            say(f"read {seen.entries} entries of {len(seen.sessions)} sessions in {self.ledger}")
            if seen.unreadable:
                say(f"skipped {seen.unreadable} unreadable entries")
        if self.logs:
            self._say_logs()
        if self.logs and not self.tally.files and self.ledger is None and not self.tally.unreadable_files:
            hint = "logs of Codex and Claude Code can be read"
            raise Ended(2, f"no session log among these files\n  hint: {hint}")

    def _say_logs(self) -> None:
        found = ", ".join(f"{count} of {name}" for name, count in sorted(self.tally.files.items())) or "none"
        say(f"read {sum(self.tally.files.values())} logs ({found}), {self.tally.sessions} sessions")
        passed = (
            (self.tally.unknown_files, "files of unknown format"),
            (self.tally.unreadable_files, "unreadable files"),
            (self.tally.broken_lines, "broken lines"),
            (self.tally.side_sessions, "subagent sessions"),
            (self.tally.repeated_turns, "duplicate turns"),
        )
        said = ", ".join(f"{count} {what}" for count, what in passed if count)
        if said:
            say(f"skipped {said}")


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Collect no garbage meanwhile: what is read of a history stays, and looking through it again and again takes a seventh."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def find_history(arguments: argparse.Namespace, loaded: LoadedConfig) -> PastFiles:
    """The history that the arguments name; by default, logs. Raises `Ended`."""
    found = PastFiles(since=arguments.since)
    wants_ledger = arguments.ledger is not None
    if wants_ledger and arguments.logs:
        raise Ended(2, "give logs or --ledger, not both")
    if wants_ledger:
        _find_ledger(arguments.ledger, loaded, found)
    else:
        _find_logs(arguments.logs, found)
    if not found.logs and found.ledger is None:
        looked = ", ".join(arguments.logs or [str(place) for place in usual_places()])
        raise Ended(2, f"found no session logs in {looked}\n  hint: name a log or a folder, or read the ledger with --ledger")
    return found


def _find_ledger(named: str, loaded: LoadedConfig, found: PastFiles) -> None:
    path = Path(os.path.expanduser(named)) if named else loaded.ledger_path
    if path is None:
        raise Ended(2, "no ledger is configured\n  hint: name one with --ledger FILE, or set ledger.path")
    try:
        found.recorded = read_ledger(SqliteEntryReader(path), found.ledger_tally, found.since)
        found.ledger = path
    except StoreUnusable as error:
        raise Ended(2, str(error)) from error


def _find_logs(named: list[str], found: PastFiles) -> None:
    places = [Path(os.path.expanduser(log)) for log in named]
    if missing := [str(place) for place in places if not place.exists()]:
        raise Ended(2, f"no such file or folder: {', '.join(missing)}")
    found.logs = find_logs(places or [place for place in usual_places() if place.exists()], found.tally)
