"""Routes that read turns, requests, sessions and series from the ledger, each in a thread and with a limit."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from statistics import median
from typing import TypeVar

from router.contract.entry import Line
from router.contract.errors import BadRequest, NotFound, Unavailable
from router.contract.past import FoundCall, PageRow, SessionSums, TurnsAsked, TurnsPage
from router.contract.request import Json, JsonObject
from router.contract.stores import RETRY_AFTER_SECONDS, AskedTooMuch, StoreUnusable
from router.contract.target import Price
from router.contract.words import Outcome, Tier
from router.edge.control.panel import Answer, Asked, Page, as_json
from router.house import House
from router.page.feed import show_line, show_turn
from router.page.live import check_on
from router.past.rows import read_call
from router.past.turns import Turn, Turns
from router.stores.sqlite.past import SqliteEntryReader

_LIMIT, _MAX_LIMIT = 50, 200
_MILLION = 1_000_000.0
_MAX_SESSION_ROWS = 1_000
_MAX_AT_ONCE = 2
"""Running questions. Others wait, so that many readers leave the router its threads and processors."""
_MAX_NUMBER = 2**63 - 1
SPANS = {"15m": (15.0, 60), "1h": (60.0, 60), "24h": (1_200.0, 72), "7d": (7_200.0, 84), "30d": (28_800.0, 90)}
"""Seconds per step, and number of steps."""
_Found = TypeVar("_Found")
PriceOf = Callable[[str], Price | None]


class LookingBack:
    """Answers a caller from its own rows, an admin from all."""

    def __init__(self, house: House, ledger: SqliteEntryReader | None, price_of: PriceOf) -> None:
        self._house, self._ledger, self._price_of = house, ledger, price_of
        self._turn = asyncio.Semaphore(_MAX_AT_ONCE)
        self.pages = (
            Page("/tandem/turns", self._list_turns),
            Page("/tandem/turns/{request_id}", self._show_turn),
            Page("/tandem/requests", self._list_requests),
            Page("/tandem/sessions", self._list_sessions),
            Page("/tandem/sessions/{session:path}", self._show_session),
            Page("/tandem/series", self._show_series),
        )

    async def _list_turns(self, asked: Asked) -> Answer:
        wanted = _read_filters(asked)
        turns, following = await self._ask(lambda ledger: _fold_page(ledger.read_turns(wanted)))
        with_words = self._shows_words(asked)
        return as_json({"turns": [show_turn(turn, with_words=with_words) for turn in turns], "next": following})

    async def _list_requests(self, asked: Asked) -> Answer:
        """The matching requests of the turns that `/tandem/turns` shows."""
        wanted = _read_filters(asked)
        rows, following = await self._ask(lambda ledger: _show_matches(ledger.read_turns(wanted)))
        return as_json({"requests": rows, "next": following})

    async def _show_turn(self, asked: Asked) -> Answer:
        name, caller = asked.path["request_id"], whose(asked)
        turn = await self._ask(lambda ledger: _find_turn(ledger.read_turn(name, caller), name))
        if turn is None:
            raise NotFound("no turn with this request for this caller")
        with_words = self._shows_words(asked)
        rows = [show_line(call.line, 0, call.kept.decided_by if call.kept is not None else None, None) for call in turn.ended]
        return as_json({"turn": show_turn(turn, with_words=with_words), "rows": [*rows]})

    async def _list_sessions(self, asked: Asked) -> Answer:
        query = asked.query
        wanted = TurnsAsked(
            limit=_read_limit(query),
            before=read_number(query, "before", int),
            since=_read_ago(query, "since") or 0.0,
            caller=whose(asked),
            client=query.get("client") or None,
        )
        page = await self._ask(lambda ledger: ledger.read_session_page(wanted))
        return as_json({"sessions": [_show_session(sums) for sums in page.sessions], "next": page.next})

    async def _show_session(self, asked: Asked) -> Answer:
        name, caller = asked.path["session"], whose(asked)
        found = await self._ask(lambda ledger: ledger.read_session(name, caller, _MAX_SESSION_ROWS))
        if found is None:
            raise NotFound("no session with this id for this caller")
        with_words = self._shows_words(asked)
        rows: list[JsonObject] = []
        for place, row in enumerate(found.rows):
            shown = _show_row(row, with_words=with_words)
            if row.hop is not None:
                shown["hop_cost_usd"] = cost_of_hop(found.rows, place, self._price_of)
                shown["hop_seconds"] = wait_of_hop(found.rows, place)
            rows.append(shown)
        return as_json({"session": _show_session(found.sums), "rows": rows, "left_out": found.left_out})

    async def _show_series(self, asked: Asked) -> Answer:
        span = asked.query.get("span", "1h")
        if span not in SPANS:
            raise BadRequest(f"span: must be one of {', '.join(SPANS)}", param="span")
        (step, steps), caller = SPANS[span], whose(asked)
        ends_at = (time.time() // step + 1) * step
        found = await self._ask(lambda ledger: ledger.read_series(ends_at, step, steps, caller))
        return as_json(
            {
                "span": span,
                "step_seconds": step,
                "at": [ends_at - step * (steps - place) for place in range(steps)],
                "targets": {name: series._asdict() for name, series in found.items()},
            }
        )

    def _shows_words(self, asked: Asked) -> bool:
        return asked.query.get("words") == "1" and self._house.plan.keeps_text

    async def _ask(self, question: Callable[[SqliteEntryReader], _Found]) -> _Found:
        check_on(self._house)
        return await ask_ledger(self._ledger, question, self._turn)


async def ask_ledger(
    ledger: SqliteEntryReader | None, question: Callable[[SqliteEntryReader], _Found], turn: AbstractAsyncContextManager[object]
) -> _Found:
    """Ask in a thread, after `turn`. Raises `NotFound` and `Unavailable`."""
    if ledger is None:
        raise NotFound("this router keeps no ledger (ledger.path), so there is nothing to look back at")
    async with turn:
        try:
            return await asyncio.to_thread(question, ledger)
        except AskedTooMuch as error:
            raise Unavailable("too much to sum up in time: ask for a shorter span, or for fewer rows") from error
        except (StoreUnusable, OSError) as error:
            words = "the ledger cannot be read now; tandem check --live checks it"
            raise Unavailable(words, retry_after_seconds=RETRY_AFTER_SECONDS) from error


def _fold_page(page: TurnsPage) -> tuple[list[Turn], int | None]:
    """The turns of a page, newest first. One with a newer call that matches is on the page of that call."""
    places = {found.call.line.id: (found.call.line.at, found.number) for found in page.calls if found.is_match}
    newest = [
        (max(own), turn)
        for turn in Turns().replay_all(read_call(found.call) for found in page.calls)
        if (own := [places[call.line.id] for call in turn.ended if call.line.id in places])
    ]
    newest.sort(key=lambda pair: pair[0], reverse=True)
    return [turn for (_, number), turn in newest if number in page.met], page.next


def _show_matches(page: TurnsPage) -> tuple[list[Json], int | None]:
    """Newest first by their places in the ledger."""
    found = sorted((one for one in page.calls if one.is_match and one.number in page.met), key=lambda one: -one.number)
    calls = [(one.number, read_call(one.call)) for one in found]
    return [
        show_line(call.line, number, call.kept.decided_by if call.kept else None, None) for number, call in calls
    ], page.next


def _find_turn(calls: list[FoundCall], request_id: str) -> Turn | None:
    turns = Turns().replay_all(read_call(found.call) for found in calls)
    return next((turn for turn in turns if any(call.line.id == request_id for call in turn.ended)), None)


def _read_filters(asked: Asked) -> TurnsAsked:
    query = asked.query
    return TurnsAsked(
        limit=_read_limit(query),
        before=read_number(query, "before", int),
        since=_read_ago(query, "since") or 0.0,
        until=_read_ago(query, "until"),
        caller=whose(asked),
        session=query.get("session") or None,
        outcome=_read_word(query, "outcome", Outcome),
        target=query.get("target") or None,
        tier=_read_word(query, "tier", Tier),
        client=query.get("client") or None,
    )


def whose(asked: Asked) -> str | None:
    """The caller whose rows are meant: an admin may name one, or none for all; others get their own."""
    return asked.query.get("caller") or None if asked.rights.is_admin else asked.caller.name


def _read_limit(query: Mapping[str, str]) -> int:
    limit = read_number(query, "limit", int)
    return _LIMIT if limit is None else max(1, min(int(limit), _MAX_LIMIT))


_Number = TypeVar("_Number", int, float)


def read_number(query: Mapping[str, str], name: str, kind: type[_Number]) -> _Number | None:
    """A non-negative number of the query."""
    given = query.get(name)
    if not given:
        return None
    try:
        number = kind(given)
    except ValueError:
        number = kind(-1)
    if not 0 <= number <= _MAX_NUMBER:
        raise BadRequest(f"{name}: must be a number that is not negative", param=name)
    return number


def _read_ago(query: Mapping[str, str], name: str) -> float | None:
    """A moment, which the query gives in seconds ago."""
    ago = read_number(query, name, float)
    return time.time() - ago if ago is not None else None


def _read_word(query: Mapping[str, str], name: str, words: type[Outcome] | type[Tier]) -> str | None:
    given = query.get(name)
    if not given:
        return None
    if given not in tuple(words):
        raise BadRequest(f"{name}: must be one of {', '.join(words)}", param=name)
    return given


def _show_row(row: PageRow, *, with_words: bool) -> JsonObject:
    shown = show_line(row.line, row.number, row.decided_by, row.hop)
    return {**shown, "words": row.words} if with_words else shown


def _show_session(sums: SessionSums) -> JsonObject:
    return {
        "session": sums.session,
        "caller": sums.caller,
        "client": sums.client,
        "began_at": sums.first_at,
        "ended_at": sums.last_at,
        "calls": sums.calls,
        "turns": sums.turns,
        "fast_turns": sums.fast,
        "deep_turns": sums.deep,
        "moved": sums.moved_up,
        "input_tokens": sums.input_tokens,
        "output_tokens": sums.output_tokens,
        "cost_usd": sums.cost_usd,
        "list_usd": sums.list_usd,
        "unpriced": sums.unpriced,
        "seconds": sums.seconds,
        "partial": sums.is_partial,
    }


def cost_of_hop(rows: Sequence[PageRow], place: int, price_of: PriceOf) -> float | None:
    """USD for reading again what the other tier had cached; None if a price or a token count is unknown."""
    line, before = rows[place].line, _call_before(rows, place)
    if before is None or before.line.input_tokens is None or line.input_tokens is None:
        return None
    usd = price_hop(before.line, line, price_of)
    return round(usd, 8) if usd is not None else None


def price_hop(before: Line, line: Line, price_of: PriceOf) -> float | None:
    """USD for tokens read again, at today's prices; None if the new target has no price."""
    price, left = price_of(line.target or ""), price_of(before.target or "")
    if price is None:
        return None
    at = price.at(max(0, line.input_tokens or 0))
    return cold_tokens(before, line, (left or price).cache_minutes) * max(0.0, at.write - at.read) / _MILLION


def cold_tokens(before: Line, line: Line, minutes: float) -> int:
    """Prompt tokens read again after a hop; 0 after a pause of more than these minutes, when the old cache expired too."""
    if line.at - (before.at + before.duration_ms / 1000) > minutes * 60:
        return 0
    known, now, cached = (
        max(0, tokens or 0)
        for tokens in ((before.input_tokens or 0) + (before.output_tokens or 0), line.input_tokens, line.cached_tokens)
    )
    return max(0, min(known, now) - cached)


def wait_of_hop(rows: Sequence[PageRow], place: int) -> float | None:
    """Extra time to first token, compared to that target's usual in this session; None if unknown."""
    line = rows[place].line
    usual = [
        row.line.ttft_ms for row in rows if row.line.target == line.target and row.hop is None and row.line.ttft_ms is not None
    ]
    if line.ttft_ms is None or not usual:
        return None
    return round(max(0.0, line.ttft_ms - median(usual)) / 1_000, 3)


def _call_before(rows: Sequence[PageRow], place: int) -> PageRow | None:
    """The last call on the tier before a hop."""
    before = rows[place].tier_before
    return next((row for row in reversed(rows[:place]) if row.line.tier == before), None)
