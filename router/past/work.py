"""Finished turns: what a router learns from its ledger about targets."""

from collections.abc import Mapping, Sequence
from itertools import dropwhile, takewhile

from router.contract.decision import ESTIMATE
from router.contract.entry import FinishedWork
from router.contract.past import RecordedCall
from router.contract.words import BEGINS, NOBODY_SERVED, Outcome
from router.past.rows import read_call
from router.past.turns import Turn, read_turns, with_following
from router.past.worth import Account, Redone, spend
from router.stores.sqlite.past import SqliteEntryReader

_MAX_ROWS = 4_000
"""Newest rows: enough to know a target, and read in a tenth of a second."""
_LEAST_QUIET_SECONDS = 600.0
"""A session silent for this long has finished its turn."""


def read_work(ledger: SqliteEntryReader, now: float) -> list[FinishedWork]:
    """The newest finished turns. Raises `StoreUnusable`."""
    found: list[FinishedWork] = []
    for session in ledger.read_recent_sessions(_MAX_ROWS):
        signs = _find_signs(session)
        turns = [
            turn
            for turn, after in with_following(read_turns(map(read_call, session), tuple(Outcome)))
            if after is not None or now - turn.ended[-1].line.at > _LEAST_QUIET_SECONDS
        ]
        found.extend(work for turn in turns if (work := _measure(turn, signs)) is not None)
    return found


def _find_signs(session: Sequence[RecordedCall]) -> dict[str, Redone | None]:
    """How it is known of each turn that it was redone, by its request; None if nothing was said against it."""
    signs: dict[str, Redone | None] = {}
    marks = {call.line.id: call.should_be for call in session if call.should_be is not None}
    account = Account(marks, lambda turn: signs.__setitem__(turn.ask.id or "", turn.sign))
    for call in session:
        account.add(spend(call.line, call.decision))
    account.close()
    return signs


def _measure(turn: Turn, signs: Mapping[str, Redone | None]) -> FinishedWork | None:
    """None if the tier was asked for or a call is incomplete. A turn that was moved up counts up to then."""
    calls = [*dropwhile(lambda call: call.line.outcome in NOBODY_SERVED, turn.ended)]  # it was sent again
    if not calls or calls[0].line.turn_kind not in BEGINS:
        return None
    kept, line = calls[0].kept, calls[0].line
    if kept is None or kept.decided_by != ESTIMATE or line.target is None or line.score is None:
        return None
    own = [call.line for call in takewhile(lambda call: call.line.target == line.target, calls)]
    if any(one.outcome != Outcome.SERVED or one.output_tokens is None for one in own):
        return None
    is_fast = kept.fast is not None and kept.fast.target == line.target
    return FinishedWork(
        line.target,
        line.score,
        len(own),
        sum(one.output_tokens or 0 for one in own),
        kept.deep.target if is_fast and kept.deep is not None else "",
        has_failed=signs.get(line.id) is not None,
    )
