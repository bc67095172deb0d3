"""Finished turns by target: what a router learns from its ledger."""

from itertools import dropwhile, takewhile

from router.contract.decision import ESTIMATE
from router.contract.entry import FinishedWork
from router.contract.words import NOBODY_SERVED, Outcome, Tier
from router.past.rows import read_call
from router.past.turns import BEGINS, Turn, read_turns, with_following
from router.stores.sqlite.past import SqliteEntryReader

_MAX_ROWS = 4_000
"""Newest rows: enough to know a target, and read in a tenth of a second."""
_LEAST_QUIET_SECONDS = 600.0
"""A session silent for this long has finished its turn."""


def read_finished_work(ledger: SqliteEntryReader, now: float) -> list[FinishedWork]:
    """The newest finished turns that show how their target works. Raises `StoreUnusable`."""
    found, calls = [], ledger.read_recent_calls(read_call, _MAX_ROWS)
    for turn, after in with_following(read_turns(calls, tuple(Outcome))):
        if after is not None or now - turn.ended[-1].line.at > _LEAST_QUIET_SECONDS:
            found.append(_measure(turn, after))
    return [work for work in found if work is not None]


def _measure(turn: Turn, after: Turn | None) -> FinishedWork | None:
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
    is_wrong = calls[0].should_be is Tier.DEEP or (after is not None and after.ask.says_wrong)
    is_fast = kept.fast is not None and kept.fast.target == line.target
    return FinishedWork(
        line.target,
        line.score,
        len(own),
        sum(one.output_tokens or 0 for one in own),
        kept.deep.target if is_fast and kept.deep is not None else "",
        has_failed=is_wrong or len(own) < len(calls),
    )
