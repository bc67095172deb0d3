"""Sums of the hours that are over, made in the background and valid until a row of theirs changes.

A reader takes them for whole hours, and the rows themselves for the rest: the current hour, an hour that its span begins in,
and hours that changed since. So its figures are those of all rows, at any moment.
"""

import sqlite3
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf, nan
from typing import Any, NamedTuple

from router.contract.spending import UNITS_PER_USD
from router.contract.words import Outcome, TurnKind
from router.stores.sqlite.rows import transaction

HOUR = 3_600
DERIVED = frozenset({"hours", "days", "hour_calls", "stale_hours"})
"""Tables that follow from the entries, by caller."""
BEGIN = f"('{TurnKind.ASK}', '{TurnKind.FOLLOW_UP}')"
IS_TURN = (
    f"ifnull(turn_kind IN {BEGIN} AND tier IS NOT NULL"
    f" AND outcome NOT IN ('{Outcome.FAILED}', '{Outcome.REFUSED}', '{Outcome.SUPERSEDED}'), 0)"
)
"""A turn in which a model worked. Refused or failed ones are sent again, and would count twice."""
UNPRICED = f"cost_usd IS NULL AND (outcome = '{Outcome.SERVED}' OR output_tokens IS NOT NULL)"
ERRORS = (Outcome.FAILED, Outcome.CUT_SHORT)
_HOUR_OF = "CAST(at / 3600 AS INTEGER)"
_COLUMNS = (
    "hour, caller, key, client, tier, target, outcome, calls, turns, input_tokens, output_tokens, cost_usd, cost_units,"
    " list_usd, unpriced, duration_ms, ttft_ms, firsts, newest_at"
)
_GROUPED = f"""
    SELECT {{slot}} AS hour, caller, key, client, tier, target, outcome, count(*) AS calls, sum({IS_TURN}) AS turns,
        sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(cost_usd) AS cost_usd,
        sum(CAST(round(cost_usd * {UNITS_PER_USD}) AS INTEGER)) AS cost_units, sum(list_usd) AS list_usd,
        sum({UNPRICED}) AS unpriced, sum(duration_ms) AS duration_ms, sum(ttft_ms) AS ttft_ms, count(ttft_ms) AS firsts,
        max(at) AS newest_at
    FROM entries WHERE {{where}} GROUP BY {{slot}}, +caller, key, client, tier, target, outcome
"""  # noqa: S608  fixed names
"""Costs are rounded to integers too: a sum of floats depends on row order."""
_DAY_OF_HOURS = """
    SELECT :first, caller, key, client, tier, target, outcome, sum(calls), sum(turns), sum(input_tokens), sum(output_tokens),
        sum(cost_usd), sum(cost_units), sum(list_usd), sum(unpriced), sum(duration_ms), sum(ttft_ms), sum(firsts),
        max(newest_at), :ends
    FROM hours WHERE hour >= :first AND hour < :ends AND (:caller IS NULL OR +caller = :caller)
    GROUP BY caller, key, client, tier, target, outcome
"""
_OF_PAIR = "at >= :begins AND at < :ends AND (:caller IS NULL OR +caller = :caller)"
_CALLS = (
    "SELECT caller, target, at, ttft_ms, tokens_per_second, outcome FROM entries WHERE {where} AND +target IS NOT NULL"
    " ORDER BY at DESC"
)
_LATE = f"SELECT DISTINCT {_HOUR_OF}, caller FROM entries WHERE sequence > ? AND +at < ? * 3600.0"  # noqa: S608  fixed names
_REBUILT_PAIRS, _REBUILT_ROWS = 20, 10_000
"""Changed hours whose sums are made again at once, and the most rows of one."""
_REBUILT = """
    SELECT hour, caller FROM stale_hours WHERE hour < :until AND :rows >= (
        SELECT count(*) FROM (
            SELECT 1 FROM entries WHERE at >= hour * 3600.0 AND at < (hour + 1) * 3600.0 LIMIT :rows + 1
        )
    ) LIMIT :pairs
"""
_SETTLED_ROWS, _MOST_PARTS = 5_000, 64
"""Rows that are added up at once, in some 60 ms: an hour with more is done in parts, down to a minute."""
_LATE_ROWS = 20_000
"""Rows that are looked at for late ones at once."""
_SETTLED_SECONDS = 60.0
"""After its end, an hour gets its sums: most of its requests have ended too."""


class Calls(NamedTuple):
    """Calls to a target, newest first, in numbers."""

    ats: Sequence[float]
    """Negative for an error."""
    ttfts_ms: Sequence[float]
    speeds: Sequence[float]
    """Not a number where unknown, as in `ttfts_ms`."""


class Settled(NamedTuple):
    until: float = 0
    """Earlier hours have sums; of this one, a part may have."""
    sequence: int = 0


def read_settled(database: sqlite3.Connection) -> Settled:
    return Settled(*database.execute("SELECT until, sequence FROM settled").fetchone() or ())


def decode_any(database: sqlite3.Connection, work: Callable[[], bool]) -> bool:
    """Do some work again, with text replaced that is not UTF-8, if there is any: other programs may have written it."""
    try:
        return work()
    except sqlite3.OperationalError as error:
        if "UTF-8" not in str(error):
            raise
        database.text_factory = lambda raw: raw.decode("utf-8", "replace")  # slow: called for each text
        try:
            return work()
        finally:
            database.text_factory = str


def settle_next(database: sqlite3.Connection, now: float) -> bool:
    """Add up the next rows: late ones, those of hours that changed, or of an hour that is over. Returns whether to go on.

    Few at a time: meanwhile, no other row is written.
    """
    return decode_any(database, lambda: _settle_next(database, now))


def _settle_next(database: sqlite3.Connection, now: float) -> bool:
    with transaction(database):
        until, sequence = read_settled(database)
        (newest,) = database.execute("SELECT ifnull(max(sequence), 0) FROM entries").fetchone()
        stop = min(newest, sequence + _LATE_ROWS) if until else newest
        _add_late(database, sequence, stop, until)
        database.execute("UPDATE settled SET sequence = ?", (stop,))
        if stop < newest or _settle_again(database, until):
            return True
        ends = int((now - _SETTLED_SECONDS) // HOUR)
        span = (until * HOUR, ends * float(HOUR))
        (oldest,) = database.execute("SELECT min(at) FROM entries WHERE at >= ? AND at < ?", span).fetchone()
        if oldest is None:
            until = max(until, ends)
        else:
            begins = max(until, int(oldest // HOUR))
            until = _find_end(database, begins)
            _settle(database, begins, until, None)
        database.execute("UPDATE settled SET until = ?", (until,))
        return oldest is not None or _sum_next_day(database, int(until))


def _add_late(database: sqlite3.Connection, after: int, last: int, until: float) -> None:
    """Rows of hours that have sums already."""
    late = "sequence > :after AND sequence <= :last AND +at < :until * 3600.0"
    of = {"after": after, "last": last, "until": until}
    pairs = database.execute(f"SELECT DISTINCT {_HOUR_OF}, caller FROM entries WHERE {late}", of).fetchall()  # noqa: S608  ours
    if pairs:
        _insert(database, late, of)
    for hour, caller in pairs:
        _sum_days_again(database, hour, caller)


def _settle_again(database: sqlite3.Connection, until: float) -> bool:
    """Hours that changed. Those of very many rows stay as they are: their rows are read."""
    found = database.execute(_REBUILT, {"until": until, "pairs": _REBUILT_PAIRS, "rows": _REBUILT_ROWS}).fetchall()
    for hour, caller in found:
        for table in ("hours", "hour_calls", "stale_hours"):
            database.execute(f"DELETE FROM {table} WHERE hour = ? AND caller = ?", (hour, caller))  # noqa: S608  fixed names
        _settle(database, hour, min(hour + 1, until), caller)
        _sum_days_again(database, hour, caller)
    return bool(found)


def _find_end(database: sqlite3.Connection, begins: float) -> float:
    """The hour's end, or an earlier one where it has many rows. Such parts of an hour are exact as floats."""
    hour, parts = int(begins), 1
    span = (hour * float(HOUR), (hour + 1) * float(HOUR))
    (many,) = database.execute("SELECT count(*) FROM entries WHERE at >= ? AND at < ?", span).fetchone()
    while many > parts * _SETTLED_ROWS and parts < _MOST_PARTS:
        parts *= 2
    return (int(begins * parts) + 1) / parts


def _sum_next_day(database: sqlite3.Connection, until: int) -> bool:
    (done,) = database.execute("SELECT ifnull(max(ends), 0) FROM days").fetchone()
    (first,) = database.execute("SELECT min(hour) FROM hours WHERE hour >= ?", (done,)).fetchone()
    for day in list_days(first * float(HOUR), until * float(HOUR)) if first is not None else ():
        if day.is_of_hours and done * HOUR <= day.begins and day.ends <= until * HOUR:
            _sum_day(database, int(day.begins // HOUR), int(day.ends // HOUR), None)
            return True
    return False


def _sum_day(database: sqlite3.Connection, first: int, ends: int, caller: str | None) -> None:
    of = {"first": first, "ends": ends, "caller": caller}
    database.execute(f"INSERT INTO days ({_COLUMNS}, ends) {_DAY_OF_HOURS}", of)


def _sum_days_again(database: sqlite3.Connection, hour: int, caller: str) -> None:
    spans = database.execute("SELECT DISTINCT hour, ends FROM days WHERE hour <= ? AND ends > ?", (hour, hour)).fetchall()
    for first, ends in spans:
        database.execute("DELETE FROM days WHERE hour = ? AND caller = ?", (first, caller))
        _sum_day(database, first, ends, caller)


def _settle(database: sqlite3.Connection, begins: float, ends: float, caller: str | None) -> None:
    """Add up the rows between two moments of an hour, in hours since 1970."""
    _insert(database, _OF_PAIR, {"begins": begins * HOUR, "ends": ends * HOUR, "caller": caller})


def _insert(database: sqlite3.Connection, where: str, of: dict[str, Any]) -> None:
    database.execute(f"INSERT INTO hours ({_COLUMNS}) {_GROUPED.format(slot=_HOUR_OF, where=where)}", of)
    found: dict[tuple[Any, ...], list[_Numbers]] = {}
    for caller, target, *values in database.execute(_CALLS.format(where=where), of):
        found.setdefault((int(values[0] // HOUR), caller, target), []).append(_read_numbers(*values))
    packed = [(*names, array("d", chain.from_iterable(calls)).tobytes()) for names, calls in found.items()]
    database.executemany("INSERT INTO hour_calls (hour, caller, target, calls) VALUES (?, ?, ?, ?)", packed)


_Numbers = tuple[float, float, float]


def _read_numbers(at: float, ttft_ms: float | None, speed: float | None, outcome: str) -> _Numbers:
    return (-at if outcome in ERRORS else at, nan if ttft_ms is None else ttft_ms, nan if speed is None else speed)


LIVE = "sequence IN (SELECT sequence FROM live) AND (:caller IS NULL OR +caller = :caller)"
LIVE_BY_HOUR = _GROUPED.format(slot=_HOUR_OF, where=LIVE)
LIVE_BY_DAY = _GROUPED.format(slot="date(at, 'unixepoch', 'localtime')", where=LIVE)
"""Sums of the rows that have none yet."""
_MADE = (
    "CREATE TEMP TABLE IF NOT EXISTS live (sequence INTEGER PRIMARY KEY)",
    "CREATE TEMP TABLE IF NOT EXISTS changed (hour INTEGER, caller TEXT, PRIMARY KEY (hour, caller)) WITHOUT ROWID",
    *("DELETE FROM live", "DELETE FROM changed"),
)
_STALE = f"SELECT hour, caller FROM stale_hours UNION {_LATE}"  # noqa: S608  fixed names
_BETWEEN = "WHERE hour >= ? AND hour <= ? ORDER BY hour DESC"
_LIVE_BETWEEN = "INSERT OR IGNORE INTO live SELECT sequence FROM entries WHERE at >= ? AND at < ?"
_LIVE_LATE = "INSERT OR IGNORE INTO live SELECT sequence FROM entries WHERE sequence > ? AND +at >= ? AND +at < ?"
_LIVE_SINCE = "INSERT OR IGNORE INTO live SELECT sequence FROM entries WHERE at >= ?"
_LIVE_CHANGED = """
    INSERT OR IGNORE INTO live
    SELECT sequence FROM (SELECT DISTINCT hour FROM changed WHERE hour >= ? AND hour < ?) AS one
    CROSS JOIN entries ON at >= one.hour * 3600.0 AND at < (one.hour + 1) * 3600.0
    WHERE EXISTS (SELECT 1 FROM changed WHERE changed.hour = one.hour AND changed.caller = entries.caller)
"""


class Day(NamedTuple):
    """A day of the local time zone."""

    name: str
    begins: float
    ends: float

    @property
    def is_of_hours(self) -> bool:
        return not self.begins % HOUR and not self.ends % HOUR


def list_days(since: float, ends: float) -> Iterator[Day]:
    """The days that a span touches."""
    begins = _midnight(since, 0)
    while begins < ends:
        following = _midnight(begins + 43_200.0, 1)
        while time.localtime(following).tm_mday == time.localtime(following - 1).tm_mday:
            following += HOUR  # clocks go forward at midnight
        yield Day(time.strftime("%Y-%m-%d", time.localtime(begins + 43_200.0)), begins, following)
        begins = following


def _midnight(at: float, days: int) -> float:
    year, month, day, *_ = time.localtime(at)
    return time.mktime((year, month, day + days, 0, 0, 0, 0, 0, -1))


class Whole(NamedTuple):
    """Whole hours of a span that have sums; its other rows are `LIVE`."""

    begins: int
    ends: int
    changed: frozenset[int]
    """Hours of which some callers' sums are not valid."""

    def where(self, table: str, begins: int = 0, ends: int = 1 << 62) -> str:
        """For a query with `:caller`. The numbers are ours."""
        begins, ends = max(begins, self.begins), min(ends, self.ends)
        where = f"hour >= {begins} AND hour < {ends} AND (:caller IS NULL OR caller = :caller)"
        if not any(begins <= hour < ends for hour in self.changed):
            return where
        pair = f"changed.hour = {table}.hour AND changed.caller = {table}.caller"
        return f"{where} AND NOT EXISTS (SELECT 1 FROM changed WHERE {pair})"  # noqa: S608  fixed names


def divide(database: sqlite3.Connection, since: float, ends: float = inf, split: Iterable[int] = ()) -> Whole:
    """Divide a span into whole hours that have sums, and rows that are read. `split` are hours that must be read."""
    _begin(database)
    for statement in _MADE:
        database.execute(statement)
    settled = read_settled(database)
    begins = -int(-max(since, 0.0) // HOUR)
    last = min(int(settled.until), int(ends // HOUR) if ends < inf else int(settled.until))
    changed = frozenset[int]()
    if last > begins:
        database.execute("INSERT OR IGNORE INTO changed SELECT hour, caller FROM stale_hours")
        database.execute(_LIVE_LATE, (settled.sequence, since, last * float(HOUR)))
        for hour in split:
            database.execute("INSERT OR IGNORE INTO changed SELECT DISTINCT hour, caller FROM hours WHERE hour = ?", (hour,))
        changed = frozenset(hour for (hour,) in database.execute("SELECT DISTINCT hour FROM changed"))
        database.execute(_LIVE_BETWEEN, (since, float(begins * HOUR)))
        database.execute(_LIVE_CHANGED, (begins, last))
        since = float(last * HOUR)
    if ends < inf:
        database.execute(_LIVE_BETWEEN, (since, ends))
    else:
        database.execute(_LIVE_SINCE, (since,))
    return Whole(begins, max(begins, last), changed)


def _begin(database: sqlite3.Connection) -> None:
    """All of a span is read as of one moment."""
    if not database.in_transaction:
        database.execute("BEGIN")


def divide_by_day(database: sqlite3.Connection, since: float) -> list[tuple[str, str]]:
    """Divide a span that has no end. Returns its days, each with the table and condition of its sums."""
    _begin(database)
    (oldest,) = database.execute("SELECT min(at) FROM entries WHERE at >= 0").fetchone()
    until = int(read_settled(database).until) * float(HOUR)
    days = list(list_days(max(since, oldest), until)) if isinstance(oldest, float) else []
    whole = divide(database, since, split={int(day.begins // HOUR) for day in days if day.begins % HOUR})
    summed = set(database.execute("SELECT DISTINCT hour, ends FROM days"))
    found = []
    for day in days:
        begins, ends = -int(-day.begins // HOUR), int(day.ends // HOUR)
        is_whole = whole.begins <= begins and ends <= whole.ends and not any(begins <= hour < ends for hour in whole.changed)
        if is_whole and (begins, ends) in summed:
            found.append((day.name, f"days WHERE hour = {begins} AND (:caller IS NULL OR +caller = :caller)"))
        else:
            found.append((day.name, f"hours WHERE {whole.where('hours', begins, ends)}"))
    return found


def read_live_calls(database: sqlite3.Connection, caller: str | None) -> dict[int, list[tuple[str, Calls]]]:
    """Calls of rows that have no sums yet, by hour."""
    by_hour: dict[tuple[int, str], list[_Numbers]] = {}
    for _, target, *values in database.execute(_CALLS.format(where=LIVE), {"caller": caller}):
        by_hour.setdefault((int(values[0] // HOUR), target), []).append(_read_numbers(*values))
    found: dict[int, list[tuple[str, Calls]]] = {}
    for (hour, target), calls in by_hour.items():
        found.setdefault(hour, []).append((target, Calls(*zip(*calls, strict=True))))
    return found


def read_packed_calls(
    database: sqlite3.Connection, where: str, caller: str | None, most: int | None = None
) -> Iterator[tuple[int, str, Calls]]:
    """Hour, target and at most so many of its newest calls. The latest hour comes first."""
    query = f"SELECT hour, target, calls FROM hour_calls WHERE {where} ORDER BY hour DESC"  # noqa: S608  ours
    for hour, target, packed in database.execute(query, {"caller": caller}):
        numbers = array("d", packed if most is None else packed[: most * 24])
        yield hour, target, Calls(numbers[::3], numbers[1::3], numbers[2::3])


def find_spans(
    database: sqlite3.Connection, of: Mapping[str, str], since: float, before: float | None
) -> Iterator[tuple[float, float | None]]:
    """Spans that may have rows of a caller or target, newest first: what has no sums yet, and hours."""
    settled = read_settled(database)
    begins = max(since, int(settled.until) * float(HOUR))
    if before is None or before >= begins:
        yield begins, None
    if settled.until:
        where = " AND ".join(f"{name} = ?" for name in of)
        bounds = (int(since // HOUR), int((begins if before is None else min(before, begins)) // HOUR))
        query = f"SELECT hour FROM (SELECT hour FROM hours WHERE {where} UNION SELECT hour FROM ({_STALE})) {_BETWEEN}"  # noqa: S608  ours
        for (hour,) in database.execute(query, (*of.values(), *settled[::-1], *bounds)).fetchall():
            yield max(since, hour * float(HOUR)), (hour + 1) * float(HOUR)
