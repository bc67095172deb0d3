"""The ledger for readers, also while a router writes.

SQL does the sums. A plus before a name keeps SQLite from its index: one by
session or caller would need a second lookup for every row.
"""

import contextlib
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from router.contract.combine import ACTED_ON, WAVED_OFF
from router.contract.entry import COLUMNS, Attempt, PastCall, read_line
from router.contract.past import (
    CallerSums,
    CallSums,
    Fold,
    FoundCall,
    LookSums,
    RecordedCall,
    RecordedTurn,
    SessionRows,
    SessionsPage,
    SessionSums,
    TargetSeries,
    TurnsAsked,
    TurnsPage,
)
from router.contract.spending import UNITS_PER_USD, Span
from router.contract.words import PERSONS_KINDS, Outcome, Tier, TurnKind
from router.stores.sqlite import pages, series, turn_pages
from router.stores.sqlite.files import open_ledger
from router.stores.sqlite.hours import BEGIN, LIVE_BY_DAY, LIVE_BY_HOUR, divide, divide_by_day
from router.stores.sqlite.lock import find_owner
from router.stores.sqlite.marks import read_misjudged
from router.stores.sqlite.pages import LINE, PERSONS
from router.stores.sqlite.turn_worth import TurnSums

_LEARNING_SECONDS = 1.0
"""A router can do without."""
_WRITTEN_SECONDS = 0.3
"""A router writes its queue every 0.2 s."""
_HISTORY_SECONDS = 3_600.0
"""Limit for `replay`, which reads every row and works in between."""
_PACES = """
    SELECT at, attempts FROM entries
    WHERE sequence > (SELECT max(sequence) - 2000 FROM entries) AND instr(attempts, '"pace"') ORDER BY sequence
"""
"""The newest calls: days of one person's use."""
_decode = msgspec.json.Decoder(list[Attempt]).decode
_MAX_ROWS = 20_000
"""How far back to look for the newest turns' start."""
_NEWEST = (
    f"SELECT {LINE}, decision, sequence"  # noqa: S608  fixed names
    # The index by time shows where to stop; without it, all older rows would be read for the few missing.
    " FROM entries WHERE at >= :since"
    " AND sequence >= CASE WHEN :since > 0 THEN (SELECT min(+sequence) FROM entries WHERE at >= :since) ELSE 0 END"
    " AND (:caller IS NULL OR caller = :caller) ORDER BY sequence DESC LIMIT :rows"
)
_TURN = f"SELECT {', '.join((*COLUMNS, 'decision', 'attempts'))} FROM entries WHERE decision IS NOT NULL"  # noqa: S608  fixed names
_KIND = "SELECT turn_kind, session, caller, sequence FROM entries WHERE id = ?"
_BEGINNING = f"{_TURN} AND session = ? AND caller = ? AND sequence <= ? AND turn_kind IN {BEGIN} ORDER BY sequence DESC LIMIT 1"
_OWN = "AND (:caller IS NULL OR +caller = :caller)"
_LAST = f"{_TURN} AND turn_kind IN {BEGIN} {_OWN} ORDER BY sequence DESC LIMIT 1"
_ONE = f"{_TURN} AND id = :id {_OWN}"
_UNDECIDED = f"SELECT coalesce(because, error, lower(outcome)) FROM entries WHERE id = :id AND decision IS NULL {_OWN}"  # noqa: S608  ours
_CALLS = f"""
    SELECT {{texts}}, decision, {", ".join(COLUMNS)}, 1 FROM entries
    WHERE sequence > :cut AND at >= :since
        AND session IS NOT NULL AND decision IS NOT NULL AND turn_kind IN {PERSONS} ORDER BY {{order}}
"""  # noqa: S608  fixed names
"""Attempts are not counted here: that is slow."""
_TEXTS = f"CASE WHEN turn_kind IN {BEGIN} THEN prompt_text END"
"""Prompts of asks: those of their further calls repeat them, and are not decided again."""
_OLDER = "SELECT sequence, at FROM entries ORDER BY sequence DESC LIMIT 1 OFFSET ?"
_BEGINNINGS = (
    f"SELECT caller, session, sequence FROM entries WHERE turn_kind IN {BEGIN} AND tier IS NOT NULL"  # noqa: S608  fixed names
    f" AND NOT (outcome IN ('{Outcome.FAILED}', '{Outcome.REFUSED}') AND (output_tokens IS NULL OR status >= 400))"
    " AND session IN ({marks})"
)
"""Turns as they are numbered (`router.past.turns`): not what the router answered itself, nor an ask that was sent again."""
_SUMS = f"""
    SELECT {{day}}, client, tier, sum(turns), sum(calls), sum(input_tokens), sum(output_tokens), sum(cost_usd), sum(unpriced),
        ifnull(sum(duration_ms) FILTER (WHERE outcome != '{Outcome.REFUSED}'), 0.0) / 1000, sum(ttft_ms) / 1000, sum(firsts),
        sum(calls * (outcome IN ('{Outcome.ABANDONED}', '{Outcome.INTERRUPTED}'))), sum(calls * (outcome = '{Outcome.FAILED}')),
        sum(calls * (outcome = '{Outcome.REFUSED}')), caller, sum(list_usd)
    FROM {{sums}} AND (tier IS NOT NULL OR outcome != '{Outcome.SERVED}') GROUP BY 1, client, tier, caller
"""  # noqa: S608  fixed names
_ADDED = tuple(name for name in CallSums._fields if name not in ("day", "client", "tier", "caller"))
_EVERYBODY = {"caller": None}
_SPENDING = "SELECT caller, sum(cost_units) FROM {sums} AND cost_units IS NOT NULL GROUP BY caller"
_SPENT = "SELECT caller, key, sum(cost_usd), max(newest_at) FROM {sums} GROUP BY caller, key"
_LOOKS = f"""
    SELECT sum(CAST(round(usd * {UNITS_PER_USD}) AS INTEGER)) FROM (
        SELECT CASE
            WHEN typeof(decision) = 'text' AND json_valid(decision) THEN json_extract(decision, '$.look.cost_usd')
        END AS usd FROM entries WHERE at >= ? AND at < ? AND combined IS NOT NULL
    ) WHERE usd BETWEEN 0 AND 1e12
"""  # noqa: S608  fixed names

_LOOK_SUMS = f"""
    SELECT date(at, 'unixepoch', 'localtime'), count(ended), sum(ended IS 'fine'), sum(ended IS 'objections'),
        sum(answered IS '{ACTED_ON}'), sum(answered IS '{WAVED_OFF}'),
        ifnull(sum(CASE WHEN seconds BETWEEN 0 AND 1e12 THEN seconds END), 0.0),
        sum(CASE WHEN usd BETWEEN 0 AND 1e12 THEN usd END)
    FROM (
        SELECT at, json_extract(decision, '$.look.end') AS ended, json_extract(decision, '$.look_before') AS answered,
            json_extract(decision, '$.look.seconds') AS seconds, json_extract(decision, '$.look.cost_usd') AS usd
        FROM (
            SELECT at, CASE WHEN typeof(decision) = 'text' AND json_valid(decision) THEN decision END AS decision
            FROM entries WHERE at >= :since AND (:caller IS NULL OR +caller = :caller) AND instr(decision, '"look') > 0
        )
    ) WHERE ended IS NOT NULL OR answered IS NOT NULL GROUP BY 1
"""  # noqa: S608  fixed names


def wait_for_writer(path: Path) -> None:
    """Sleeps while a router owns the file, as its queue is invisible from outside."""
    if find_owner(path) is not None:
        time.sleep(_WRITTEN_SECONDS)


class SqliteEntryReader:
    """Queries the ledger, opening it for each.

    Queries block: on an event loop, use a thread. Times are seconds since 1970. A caller's name limits a query to that caller.
    Raises `StoreUnusable` without a readable ledger, and `AskedTooMuch` after a minute of CPU time, or a fifth of a second
    for a live page (turns, pages of sessions, one session, series).
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def wait_for_writer(self) -> None:
        wait_for_writer(self.path)

    def read_newest(
        self, since: float, turns: int, caller: str | None = None
    ) -> tuple[list[RecordedCall], Mapping[tuple[str, str], int]]:
        """Calls of at least the newest turns, oldest first, and how many turns each caller's session had before."""
        calls: list[RecordedCall] = []
        oldest: dict[tuple[str, str], int] = {}
        with open_ledger(self.path) as database:
            begun, waiting, should_be = 0, set[tuple[str, str]](), read_misjudged(database)
            looked = {"since": since, "caller": caller, "rows": _MAX_ROWS}
            for *values, decision, sequence in database.execute(_NEWEST, looked):
                if begun >= turns and not waiting:
                    break
                if (line := read_line(values)) is None or (line.tier is None and line.outcome == Outcome.SERVED):
                    continue  # not ours, or answered by the router itself
                key = (line.caller, line.session or "")
                if line.turn_kind == TurnKind.TOOL_LOOP:
                    if begun >= turns and key not in waiting:
                        continue
                    waiting.add(key)
                elif begun < turns or key in waiting:
                    begun += 1
                    waiting.discard(key)
                else:
                    continue
                calls.append(RecordedCall(line, decision, should_be.get(line.id)))
                oldest[key] = sequence
            sessions = sorted({session for _, session in oldest})
            rows = database.execute(_BEGINNINGS.format(marks=", ".join("?" * len(sessions))), sessions)
            before = Counter((caller, session) for caller, session, at in rows if at < oldest.get((caller, session), 0))
        return calls[::-1], before

    def read_turns(self, asked: TurnsAsked) -> TurnsPage:
        with self._open_page() as database:
            return turn_pages.read_turns(database, asked)

    def read_turn(self, request_id: str, caller: str | None) -> list[FoundCall]:
        with self._open_page() as database:
            return turn_pages.read_turn(database, request_id, caller)

    def read_session_page(self, asked: TurnsAsked) -> SessionsPage:
        with self._open_page() as database:
            return pages.read_session_page(database, asked)

    def read_session(self, session: str, caller: str | None, limit: int) -> SessionRows | None:
        with self._open_page() as database:
            return pages.read_session(database, session, caller, limit)

    def read_series(self, ends_at: float, step_seconds: float, steps: int, caller: str | None) -> Mapping[str, TargetSeries]:
        with self._open_page() as database:
            return series.read_series(database, ends_at, step_seconds, steps, caller)

    def read_sessions(self, since: float, limit: int, caller: str | None = None) -> list[SessionSums]:
        with open_ledger(self.path) as database:
            return pages.read_sessions(database, since, limit, caller)

    def read_sums(self, since: float, caller: str | None = None) -> list[CallSums]:
        found: dict[tuple[object, ...], CallSums] = {}
        with open_ledger(self.path) as database:
            days = [(f"'{day}'", sums) for day, sums in divide_by_day(database, since)]
            for day, sums in [*days, ("hour", f"({LIVE_BY_DAY}) WHERE 1")]:
                for row in map(CallSums._make, database.execute(_SUMS.format(day=day, sums=sums), {"caller": caller})):
                    group = (row.day, row.client, row.tier, row.caller)
                    found[group] = _add(found[group], row) if group in found else row
        return [*found.values()]

    def read_looks(self, since: float, caller: str | None = None) -> list[LookSums]:
        """By day."""
        with open_ledger(self.path) as database:
            return [LookSums(*row) for row in database.execute(_LOOK_SUMS, {"since": since, "caller": caller})]

    def read_spending(self, span: Span) -> dict[str, int]:
        found: Counter[str] = Counter()
        with open_ledger(self.path) as database:
            for caller, units in _read_parts(database, span, _SPENDING):
                found[caller] += units
        return dict(found)

    def read_look_spending(self, span: Span) -> int:
        """What looks came to, all callers together."""
        with open_ledger(self.path) as database:
            return int(database.execute(_LOOKS, span).fetchone()[0] or 0)

    def read_spent(self, day: Span, month: Span) -> list[CallerSums]:
        found: dict[tuple[str, str | None], CallerSums] = {}
        with open_ledger(self.path) as database:
            for caller, key, _, newest in _read_parts(database, Span(0.0, inf), _SPENT):
                known = found.get((caller, key))
                found[caller, key] = CallerSums(caller, key, None, None, max(newest, known.last_at if known else newest))
            for name, span in (("today_usd", day), ("month_usd", month)):
                for caller, key, usd, _ in _read_parts(database, span, _SPENT):
                    of = found[caller, key]
                    found[caller, key] = of._replace(**{name: _add_known(getattr(of, name), usd)})
        return [*found.values()]

    def find_turn(self, request_id: str | None, caller: str | None = None) -> RecordedTurn | None:
        """The last turn a person began, or a decided request by its id."""
        with open_ledger(self.path) as database:
            named = {"id": request_id, "caller": caller}
            return _read_turn(database.execute(_ONE if request_id else _LAST, named).fetchone())

    def find_beginning(self, request_id: str) -> RecordedTurn | None:
        with open_ledger(self.path) as database:
            found = database.execute(_KIND, (request_id,)).fetchone()
            if found is None or found[0] not in PERSONS_KINDS:
                return None
            return _read_turn(database.execute(_BEGINNING, found[1:]).fetchone())

    def find_undecided(self, request_id: str, caller: str | None = None) -> str | None:
        """Why no tier was chosen: who answered, or the error. None for a decided or unknown request."""
        with open_ledger(self.path) as database:
            found = database.execute(_UNDECIDED, {"id": request_id, "caller": caller}).fetchone()
            return None if found is None else str(found[0])

    def read_past_calls(self) -> list[PastCall]:
        found: list[PastCall] = []
        with open_ledger(self.path, _LEARNING_SECONDS) as database:
            for at, attempts in database.execute(_PACES):
                with contextlib.suppress(msgspec.DecodeError):  # another version's, or not ours
                    found += (PastCall(at, one, one.pace) for one in _decode(attempts) if one.pace is not None)
        return found

    def read_recent_sessions(self, rows: int) -> Iterator[list[RecordedCall]]:
        """Calls of persons' turns among at most `rows` of the newest rows, a session at a time: all of them take 20 MB."""
        with open_ledger(self.path) as database:
            cut, _ = database.execute(_OLDER, (rows,)).fetchone() or (0, 0.0)
            calls = _read_calls(database, "NULL", "caller, session, sequence", cut=cut, since=0.0)
            for _, session in groupby(calls, key=lambda call: (call.line.caller, call.line.session)):
                yield list(session)

    @contextlib.contextmanager
    def open_worth(
        self, fold: Fold, since: float, caller: str | None = None, client: str | None = None, target: str | None = None
    ) -> Iterator[TurnSums]:
        with open_ledger(self.path) as database:
            yield TurnSums(database, fold, since, caller, client, target)

    def read_history(self, since: float = 0.0) -> Iterator[RecordedCall]:
        """Every call of persons' turns with its text, oldest first."""
        with open_ledger(self.path, within_seconds=_HISTORY_SECONDS) as database:
            yield from _read_calls(database, _TEXTS, "sequence", cut=0, since=since)

    def _open_page(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        return open_ledger(self.path, within_seconds=pages.WITHIN_SECONDS)


def _read_parts(database: sqlite3.Connection, span: Span, query: str) -> list[tuple[Any, ...]]:
    """Rows of a query over whole hours, and over the other rows of a span."""
    whole = divide(database, *span)
    parts = (f"hours WHERE {whole.where('hours')}", f"({LIVE_BY_HOUR}) WHERE 1")
    return [row for part in parts for row in database.execute(query.format(sums=part), _EVERYBODY).fetchall()]


def _add(one: CallSums, other: CallSums) -> CallSums:
    return one._replace(**{name: _add_known(getattr(one, name), getattr(other, name)) for name in _ADDED})


def _add_known(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else one + other


def _read_calls(database: sqlite3.Connection, texts: str, order: str, **which: float) -> Iterator[RecordedCall]:
    should_be = read_misjudged(database)
    for text, decision, *values in database.execute(_CALLS.format(texts=texts, order=order), which):
        if (line := read_line(values)) is not None:
            yield RecordedCall(line, decision, should_be.get(line.id), text)


def _read_turn(row: tuple[Any, ...] | None) -> RecordedTurn | None:
    if row is None:
        return None
    found = dict(zip(COLUMNS, row, strict=False))
    tier = Tier(found["tier"]) if found["tier"] in tuple(Tier) else None
    return RecordedTurn(
        str(found["id"]), float(found["at"]), tier, found["target"], found["because"], row, str(found["caller"])
    )
