"""What `replay` and `tune` share: which history is meant, and going through it with a progress bar."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from router.cli.common import complain
from router.cli.progress import Progress
from router.config.load import LoadedConfig
from router.lab.cases import Case, cases_of
from router.lab.ledger import LedgerTally, LedgerUnreadable, count_entries, read_ledger
from router.lab.logs import LogFile, find_logs, read_logs, usual_places
from router.lab.logs.lines import Tally


def add_history_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the history is."""
    parser.add_argument(
        "logs",
        nargs="*",
        metavar="LOG",
        help="session logs, or folders of them: Codex, Claude Code, SpecStory or aider (default: where those leave theirs)",
    )
    parser.add_argument(
        "--ledger", nargs="?", const="", metavar="FILE", help="read the ledger instead (default: the config's own)"
    )


@dataclass(slots=True)
class PastFiles:
    """The history that was found."""

    logs: list[LogFile] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    ledger: Path | None = None
    ledger_entries: int = 0
    ledger_tally: LedgerTally = field(default_factory=LedgerTally)

    def cases(self, name: str) -> Iterator[Case]:
        """Every turn, under a progress bar."""
        total = self.ledger_entries if self.ledger is not None else sum(log.size_bytes for log in self.logs)
        with Progress(name, total) as progress:
            for turns, case in enumerate(self._read(progress), start=1):
                progress.note = f"{turns} turns"
                progress.advance(1 if self.ledger is not None else 0)
                yield case

    def _read(self, progress: Progress) -> Iterator[Case]:
        if self.ledger is not None:
            return read_ledger(self.ledger, self.ledger_tally)
        return cases_of(read_logs(self.logs, self.tally, progress.advance))

    def say(self) -> None:
        """What was read, and what was passed over."""
        if self.ledger is not None:
            seen = self.ledger_tally
            complain(f"read {seen.entries} entries of {len(seen.sessions)} sessions in {self.ledger}")
            if seen.unreadable:
                complain(f"passed over {seen.unreadable} entries whose decision cannot be read")
            return
        found = ", ".join(f"{count} of {name}" for name, count in sorted(self.tally.files.items())) or "none"
        complain(f"read {sum(self.tally.files.values())} logs ({found}), {self.tally.sessions} sessions")
        passed = (
            (self.tally.unknown_files, "files of an unknown kind"),
            (self.tally.unreadable_files, "files that cannot be read"),
            (self.tally.broken_lines, "broken lines"),
            (self.tally.side_sessions, "sessions of subagents"),
            (self.tally.repeated_turns, "turns told twice"),
        )
        said = ", ".join(f"{count} {what}" for count, what in passed if count)
        if said:
            complain(f"passed over {said}")


def find_history(arguments: argparse.Namespace, loaded: LoadedConfig) -> PastFiles | None:
    """The history that the arguments mean, or None after it was said why there is none."""
    found = PastFiles()
    if arguments.ledger is not None:
        if arguments.logs:
            complain("give logs or --ledger, not both")
            return None
        path = Path(arguments.ledger).expanduser() if arguments.ledger else loaded.ledger_path
        if path is None:
            complain("the config keeps no ledger\n  hint: name one with --ledger FILE, or set ledger.path")
            return None
        try:
            found.ledger, found.ledger_entries = path, count_entries(path)
        except LedgerUnreadable as error:
            complain(str(error))
            return None
        return found
    places = [Path(log).expanduser() for log in arguments.logs]
    missing = [str(place) for place in places if not place.exists()]
    if missing:
        complain(f"no such file or folder: {', '.join(missing)}")
        return None
    usual = [place for place in usual_places() if place.exists()]
    found.logs = find_logs(places or usual, found.tally)
    if not found.logs:
        looked = ", ".join(str(place) for place in places or usual_places())
        complain(f"found no session logs in {looked}\n  hint: name a log or a folder, or read the ledger with --ledger")
        return None
    return found
