"""What turns took, cost and saved: a row for each turn, and sums of these by hour and day, made in the background.

How calls become turns is for `past.worth` to say (`Fold`). Sessions do not touch each other, so what changed of one is folded
again from the turn before it to the turn after it. A reader does this for what is not folded yet, and for sessions that its
span cuts. So its figures are those of a fold of all calls in the span, at any moment.
"""

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from math import inf
from typing import Any, NamedTuple

from router.contract.past import Fold, SpentCall, TurnEvidence, TurnKindSums, TurnWorth, WorthSums
from router.contract.words import Tier, TurnKind
from router.stores.sqlite.hours import HOUR, UNPRICED, decode_any, list_days
from router.stores.sqlite.marks import read_misjudged
from router.stores.sqlite.rows import transaction

DERIVED = frozenset({"turn_worth", "span_worth", "stale_turns"})
"""Tables that follow from the entries, by caller."""
_OF_ASKS = f"turn_kind IS NOT '{TurnKind.TOOL_LOOP}'"
_CALLS = f"""
    SELECT caller, session, turn_kind, tier, outcome,
        CASE WHEN duration_ms BETWEEN 0 AND 1e12 THEN duration_ms ELSE 0.0 END,
        CASE WHEN cost_usd BETWEEN 0 AND 1e12 THEN cost_usd END, {UNPRICED},
        CASE WHEN {_OF_ASKS} OR tier IS '{Tier.DEEP}' THEN decision END, CASE WHEN {_OF_ASKS} THEN id END,
        CASE WHEN {_OF_ASKS} AND score BETWEEN 0 AND 1 THEN score END, at, client, target,
        CASE WHEN list_usd BETWEEN 0 AND 1e12 THEN list_usd END, sequence
    FROM entries WHERE {{where}} AND +at BETWEEN :since AND 2e11 AND (:caller IS NULL OR +caller = :caller)
        AND typeof(id) || typeof(caller) = 'texttext' AND typeof(session) != 'blob'
    ORDER BY sequence
"""  # noqa: S608  fixed names
"""Other programs may write to the file: names that are not text are left out, and what no clock or price gives."""
_NEW = _CALLS.format(where="sequence > :after AND sequence <= :upto")
_OF_SESSION = _CALLS.format(where="session = :session AND sequence >= :first AND sequence <= :last")
_WITHOUT = _CALLS.format(where="session IS NULL AND sequence >= :first AND sequence <= :last")
_NEW_SESSIONS = """
    SELECT DISTINCT caller, session FROM entries
    WHERE sequence > :after AND sequence <= :upto AND session IS NOT NULL AND (:caller IS NULL OR +caller = :caller)
"""
_STALE = "SELECT caller, session, first, last, rowid FROM stale_turns WHERE :caller IS NULL OR caller = :caller LIMIT :most"
_CUT = """
    SELECT caller, session, min(sequence), max(sequence) FROM (
        SELECT caller, session, sequence FROM turn_worth
        WHERE ends_at >= :since AND begins_at < :since AND CAST(begins_at / 3600 AS INTEGER) < CAST(ends_at / 3600 AS INTEGER)
        UNION ALL SELECT caller, session, sequence FROM turn_worth
        WHERE at >= :since - 3600 AND at < :since + 3600 AND +ends_at >= :since AND begins_at < :since
    ) WHERE :caller IS NULL OR caller = :caller GROUP BY caller, session
"""
"""Turns on both sides of a moment: few go on from one hour to the next, and the others are near it."""
_TURN = "SELECT sequence FROM turn_worth WHERE session = ? AND +caller = ? AND turns = 1 AND sequence"
_BEFORE, _AFTER = f"{_TURN} < ? ORDER BY sequence DESC LIMIT 1", f"{_TURN} > ? ORDER BY sequence LIMIT 1"
_IN_RUN = "{session} AND +caller = :caller AND sequence >= :first AND sequence <= :last"
_KEYS = ("caller", "client", "target", "idea", "deep_target")
_REDONE = ("marked", "moved_up", "asked_for_deep", "asked_again")
_ADDED = {
    **{name: f"sum({name})" for name in WorthSums._fields},
    **{name: f"sum(redone = '{name}')" for name in _REDONE},
    "redone_seconds": "total(fast_seconds * (redone != ''))",
    "redone_usd": "total(fast_usd * (redone != ''))",
}
"""The sums of rows of turns."""
_GROUPED = ", ".join(_KEYS)
_COLUMNS = ", ".join((*_KEYS, "many", *WorthSums._fields))
_SPAN = f"INSERT INTO span_worth (first, ends, {_COLUMNS}) SELECT :first, :ends, {_GROUPED}"
_HOUR_SUMS = f"""
    {_SPAN}, count(*), {", ".join(_ADDED.values())} FROM turn_worth WHERE at >= :first * 3600.0 AND at < :ends * 3600.0
    GROUP BY {_GROUPED}
"""
_DAY_SUMS = f"""
    {_SPAN}, sum(many), {", ".join(f"sum({name})" for name in WorthSums._fields)} FROM span_worth
    WHERE first >= :first AND ends <= :ends AND ends = first + 1 GROUP BY {_GROUPED}
"""
_FOLDED_ROWS, _FOLDED_SESSIONS, _SUMMED_TURNS = 2_000, 50, 5_000
"""What is done at once, in some tens of ms: meanwhile, no other row is written."""
_SETTLED_SECONDS = 60.0
_LAST = (1 << 63) - 1
_INSERT = f"INSERT INTO {{}} VALUES ({', '.join('?' * len(TurnWorth._fields))})"  # noqa: S608  fixed names


class _Run(NamedTuple):
    """Calls of a session that are folded again: from its first one to before the turn at `ends`, if there is one."""

    first: int
    ends: int | None

    def joined(self, other: "_Run") -> "_Run":
        return _Run(min(self.first, other.first), None if None in (self.ends, other.ends) else max(self.ends, other.ends))  # type: ignore[type-var]


class _Folded(NamedTuple):
    """Turns made again, and where those lie that they replace."""

    replaced: list[dict[str, Any]]
    made: Iterable[TurnWorth]


def settle_turns(database: sqlite3.Connection, fold: Fold, now: float) -> bool:
    """Fold the next calls: those of sessions that changed, then new ones. Then add up hours and days.

    Returns whether to go on.
    """
    return decode_any(database, lambda: _settle(database, fold, now))


def _settle(database: sqlite3.Connection, fold: Fold, now: float) -> bool:
    with transaction(database):
        (folded,) = database.execute("SELECT sequence FROM folded").fetchone()
        stale = database.execute(_STALE, {"caller": None, "most": _FOLDED_SESSIONS}).fetchall()
        if stale:
            _write(database, _fold_again(database, fold, stale, after=folded, upto=folded))
            database.executemany("DELETE FROM stale_turns WHERE rowid = ?", [row[-1:] for row in stale])
            return True
        few = "SELECT sequence FROM entries WHERE sequence > ? ORDER BY sequence LIMIT ?"
        (upto,) = database.execute(f"SELECT max(sequence) FROM ({few})", (folded, _FOLDED_ROWS)).fetchone()  # noqa: S608  fixed names
        if upto is not None:
            _write(database, _fold_again(database, fold, (), after=folded, upto=upto))
            database.execute("UPDATE folded SET sequence = ?", (upto,))
            return True
        return _sum_next(database, int((now - _SETTLED_SECONDS) // HOUR))


def _write(database: sqlite3.Connection, folded: _Folded) -> None:
    made = [*folded.made]
    for run in folded.replaced:
        database.execute(f"DELETE FROM turn_worth WHERE {_of_run(run)}", run)  # noqa: S608  fixed names
    moved = [(turn.sequence,) for turn in made]  # entries that another program gave to another caller or session
    database.executemany("DELETE FROM turn_worth WHERE sequence = ?", moved)
    database.executemany(_INSERT.format("turn_worth"), made)
    for hour in {int(turn.at // HOUR) for turn in made}:
        within = (hour - 26, hour, hour)
        database.execute("DELETE FROM summed_spans WHERE first BETWEEN ? AND ? AND ends > ?", within)


def _sum_next(database: sqlite3.Connection, ends: int) -> bool:
    """Add up hours that are over, then a day. Returns whether there may be more."""
    summed = set(database.execute("SELECT first, ends FROM summed_spans"))
    hour, turns, found = 0, 0, list[int]()
    while turns < _SUMMED_TURNS:
        (at,) = database.execute("SELECT min(at) FROM turn_worth WHERE at >= ?", (hour * float(HOUR),)).fetchone()
        if at is None or at >= ends * HOUR:
            return _sum_day(database, summed, found, ends)
        hour = int(at // HOUR) + 1
        found.append(hour - 1)
        if (hour - 1, hour) not in summed:
            turns += _sum_span(database, _HOUR_SUMS, hour - 1, hour)
    return True


def _sum_day(database: sqlite3.Connection, summed: set[tuple[int, int]], hours: list[int], until: int) -> bool:
    done = 0
    for hour in hours:
        if hour >= done:
            day = next(list_days(hour * float(HOUR), hour * float(HOUR) + 1.0))
            done = -int(-day.ends // HOUR)
            span = (int(day.begins // HOUR), done)
            if day.is_of_hours and done <= until and span not in summed:
                _sum_span(database, _DAY_SUMS, *span)
                return True
    return False


def _sum_span(database: sqlite3.Connection, sums: str, first: int, ends: int) -> int:
    """Returns the number of turns."""
    span = (first, ends)
    database.execute(sums, {"first": first, "ends": ends})
    database.execute("INSERT INTO summed_spans VALUES (?, ?)", span)
    (turns,) = database.execute("SELECT total(many) FROM span_worth WHERE first = ? AND ends = ?", span).fetchone()
    return int(turns)


def _fold_again(
    database: sqlite3.Connection,
    fold: Fold,
    stale: Iterable[tuple[Any, ...]],
    *,
    after: int,
    upto: int,
    since: float = 0.0,
    caller: str | None = None,
) -> _Folded:
    """Fold what changed, what `since` cuts, and the calls between two numbers with the turns that they go on with."""
    of = {"after": after, "upto": upto, "since": since, "caller": caller}
    runs: dict[tuple[str, str], _Run] = {}
    replaced: list[dict[str, Any]] = []
    calls: list[Iterable[SpentCall]] = []

    def add(key: tuple[str, str], run: _Run) -> None:
        runs[key] = run.joined(runs[key]) if key in runs else run

    changed = {row[:4] for row in stale}
    for whose, session, first, last in (*changed, *(database.execute(_CUT, of) if since > 0 else ())):
        if session is None:
            replaced.append({"caller": whose, "session": None, "first": first, "last": last})
            calls.append(_read_calls(database, _WITHOUT, {**of, **replaced[-1], "last": min(last, after)}))
        else:
            before, following = _find(database, _BEFORE, session, whose, first), _find(database, _AFTER, session, whose, last)
            add((whose, session), _Run(first if before is None else before, following))
    for whose, session in database.execute(_NEW_SESSIONS, of).fetchall() if upto > after else ():
        newest = _find(database, _BEFORE, session, whose, after + 1)
        if newest is not None or (whose, session) in runs:
            add((whose, session), _Run(after + 1 if newest is None else newest, None))
    marks = read_misjudged(database)
    made: list[Iterable[TurnWorth]] = []
    for (whose, session), (first, ends) in runs.items():
        run = {"caller": whose, "session": session, "first": first, "last": _LAST if ends is None else ends - 1}
        replaced.append(run)
        rows = _read_calls(database, _OF_SESSION, {**of, **run, "last": after if ends is None else ends})
        if ends is None:
            calls.append(rows)
        else:
            made.append(_leave_out(ends, fold(rows, marks)))
    calls.append(_read_calls(database, _NEW, of))
    return _Folded(replaced, chain(*made, fold(chain.from_iterable(calls), marks)))


def _leave_out(sequence: int, turns: Iterable[TurnWorth]) -> Iterator[TurnWorth]:
    return (turn for turn in turns if turn.sequence != sequence)


def _of_run(run: Mapping[str, Any]) -> str:
    return _IN_RUN.format(session="session IS NULL" if run["session"] is None else "session = :session")


def _find(database: sqlite3.Connection, query: str, *values: str | int) -> int | None:
    found = database.execute(query, values).fetchone()
    return found[0] if found is not None else None


def _read_calls(database: sqlite3.Connection, query: str, of: Mapping[str, Any]) -> Iterator[SpentCall]:
    """Lazily: there may be a query for each of many sessions."""
    yield from map(SpentCall._make, database.execute(query, of))


_DAY = "date(at, 'unixepoch', 'localtime')"
_MADE = (
    "DROP TABLE IF EXISTS temp.part",
    "DROP TABLE IF EXISTS temp.made",
    "DROP TABLE IF EXISTS temp.span",
    "DROP TABLE IF EXISTS temp.replaced",
    f"CREATE TEMP TABLE part (day, {_COLUMNS})",
    f"CREATE TEMP TABLE made ({', '.join(TurnWorth._fields)})",
    "CREATE TEMP TABLE span (first, ends, day)",
    "CREATE TEMP TABLE replaced (sequence INTEGER PRIMARY KEY)",
)
_BETWEEN = "turn_worth WHERE at >= :begins AND at < :ends"
_REPLACED = "turn_worth WHERE sequence IN (SELECT sequence FROM replaced) AND at >= :since"
_ONCE = ((0.0, 0.0),)
_GROUPS = {
    "total": "''",
    "by_day": "day",
    "by_caller": "caller",
    "by_client": "ifnull(nullif(client, ''), 'unknown')",
    "by_target": "ifnull(nullif(target, ''), 'none')",
}
_KINDS = f"""
    SELECT idea, ifnull(target, ''), deep_target, sum(many), {", ".join(f"sum({name})" for name in _REDONE)}
    FROM part WHERE idea != '' GROUP BY 1, 2, 3 HAVING sum(many) > 0
"""  # noqa: S608  fixed names
_SHOWN = (
    "SELECT id, turn.at, turn.caller, turn.client, turn.session, turn.target, because, redone, fast_seconds, fast_usd,"
    " saved_seconds, saved_usd FROM {source} AS turn CROSS JOIN entries USING (sequence)"
    " WHERE turn.at >= :since AND is_on_fast AND {where} ORDER BY {order} DESC LIMIT :most"
)
_EVIDENCE = {"redone": ("redone != ''", "turn.at"), "saving": ("saved_seconds > 0", "saved_seconds")}


class TurnSums:
    """The figures of a span of turns, of one caller, client or target where these are given."""

    def __init__(
        self, database: sqlite3.Connection, fold: Fold, since: float, caller: str | None, client: str | None, target: str | None
    ) -> None:
        self._database = database
        self._of = {"since": max(since, 0.0), "caller": caller, "client": client, "target": target}
        own = " AND ".join(f"{{0}}{name} = :{name}" for name in ("caller", "client", "target") if self._of[name] is not None)
        self._where = f" AND {own}" if own else ""
        for statement in _MADE:
            database.execute(statement)
        if not database.in_transaction:
            database.execute("BEGIN")  # all is read as of one moment
        self._put_together(fold)

    def read(self, group: str) -> dict[str, WorthSums]:
        sums = ", ".join(f"sum({name})" for name in WorthSums._fields)
        query = f"SELECT {_GROUPS[group]}, {sums} FROM part GROUP BY 1 HAVING sum(many) > 0"  # noqa: S608  fixed names
        return {name: WorthSums._make(row) for name, *row in self._database.execute(query)}

    def read_kinds(self) -> list[TurnKindSums]:
        return [TurnKindSums(*row) for row in self._database.execute(_KINDS)]

    def read_evidence(self, kind: str, most: int) -> list[TurnEvidence]:
        where, order = _EVIDENCE[kind]
        where += self._where.format("turn.")
        found: list[TurnEvidence] = []
        for source in ("turn_worth", "made"):
            kept = " AND sequence NOT IN (SELECT sequence FROM replaced)" if source == "turn_worth" else ""
            query = _SHOWN.format(source=source, where=where + kept, order=order)
            found += (TurnEvidence(*row) for row in self._database.execute(query, {**self._of, "most": most}))
        return sorted(found, key=lambda turn: -(turn.at if kind == "redone" else turn.saved_seconds))[:most]

    def _put_together(self, fold: Fold) -> None:
        database, of = self._database, self._of
        (after,) = database.execute("SELECT sequence FROM folded").fetchone()
        asked = {"caller": of["caller"], "since": of["since"]}
        stale = database.execute(_STALE, {**asked, "most": -1}).fetchall()
        folded = _fold_again(database, fold, stale, after=after, upto=_LAST, **asked)  # type: ignore[arg-type]
        for run in folded.replaced:
            database.execute(f"INSERT OR IGNORE INTO replaced SELECT sequence FROM turn_worth WHERE {_of_run(run)}", run)  # noqa: S608  ours
        database.executemany(_INSERT.format("made"), folded.made)
        spans, gaps = _divide(database, of["since"])  # type: ignore[arg-type]
        database.executemany("INSERT INTO span VALUES (?, ?, ?)", spans)
        columns = ", ".join(f"span_worth.{name}" for name in _COLUMNS.split(", "))
        whole = f"SELECT day, {columns} FROM span CROSS JOIN span_worth USING (first, ends) WHERE 1{self._where.format('')}"  # noqa: S608  ours
        database.execute(f"INSERT INTO part {whole}", of)
        for source, factor, bounds in ((_BETWEEN, 1, gaps), (_REPLACED, -1, _ONCE), ("made WHERE 1", 1, _ONCE)):
            sums = ", ".join(f"{factor} * {one}" for one in ("count(*)", *_ADDED.values()))
            added = f"SELECT {_DAY}, {_GROUPED}, {sums} FROM {source}{self._where.format('+')} GROUP BY 1, {_GROUPED}"  # noqa: S608  ours
            for begins, ends in bounds:
                database.execute(f"INSERT INTO part {added}", {**of, "begins": begins, "ends": ends})


def _divide(database: sqlite3.Connection, since: float) -> tuple[list[tuple[int, int, str]], list[tuple[float, float]]]:
    """Hours and days from `since` on that have sums, each with its day's name, and the spans between them."""
    spans, gaps, position = list[tuple[int, int, str]](), list[tuple[float, float]](), since
    query = "SELECT first, ends FROM summed_spans WHERE first >= ? ORDER BY first, ends DESC"
    for first, ends in database.execute(query, (-int(-since // HOUR),)):
        if first * HOUR >= position and (name := _name_day(first, ends)) is not None:
            if first * HOUR > position:
                gaps.append((position, first * float(HOUR)))
            spans.append((first, ends, name))
            position = ends * float(HOUR)
    return spans, [*gaps, (position, inf)]


def _name_day(first: int, ends: int) -> str | None:
    """The local day that a span lies in; None for a day of another time zone, and for an hour with midnight in it."""
    begins, last = time.localtime(first * HOUR), time.localtime(ends * HOUR - 1)
    return time.strftime("%Y-%m-%d", begins) if begins[:3] == last[:3] else None
