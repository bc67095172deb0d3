"""Values that stores keep, and stores to keep them in."""

import time
from pathlib import Path

from router.contract.caller import LOCAL, Caller
from router.contract.decision import Decision, Flip
from router.contract.entry import Attempt, Entry, Usage
from router.contract.request import JsonObject, Transcript
from router.contract.signals import Turn
from router.contract.stores import StoredResponse
from router.contract.words import Dialect, Outcome, Tier, TurnKind
from router.stores.sqlite.entries import SqliteEntries
from router.stores.sqlite.migrate import LEDGER, RESPONSES
from router.stores.sqlite.responses import SqliteResponses
from router.stores.sqlite.sessions import SqliteSessions
from router.stores.sqlite.writer import SqliteWriter

ANN, BOB = Caller("ann"), Caller("bob")
Failures = list[tuple[str, int]]

DECISION = Decision(
    tier=Tier.FAST,
    targets=("spark",),
    spill=(),
    score=0.2,
    because="a quick edit",
    decided_by="estimate",
    evidence=(),
    estimates={},
    margin_usd=None,
    flip=Flip(None, None),
    skipped=(),
    turn=Turn(kind=TurnKind.ASK, client="codex", session="s"),
    prompt_tokens=10,
    prompt_is_exact=False,
    config_fingerprint="",
)


def make_entry(name: str = "req_1", caller: Caller = LOCAL, **more) -> Entry:
    """An entry of a served request, with its decision."""
    plain = Entry(
        id=name,
        at=time.time(),
        caller=caller,
        dialect=Dialect.CHAT,
        model="auto",
        is_streaming=True,
        outcome=Outcome.SERVED,
        status=200,
        error=None,
        decision=DECISION,
        because="a quick edit",
        attempts=(Attempt("spark", 200, None, 0.1),),
        tier=Tier.FAST,
        target="spark",
        overhead_ms=0.3,
        ttft_ms=20.0,
        duration_ms=100.0,
        tokens_per_second=900.0,
        usage=Usage(10, 5, cached_tokens=4),
        cost_usd=None,
    )
    return plain._replace(**more)


def explain_shortly(entry: Entry) -> JsonObject:
    """A decision in few words, with what the person typed."""
    return {"request_id": entry.id, "because": entry.because, "person_text": f"typed for {entry.id}"}


def make_response(name: str = "resp_1", caller: Caller = ANN, at: float | None = None, text: str = "hi") -> StoredResponse:
    """A response to some words."""
    now = time.time() if at is None else at
    return StoredResponse.write(caller, "spark", now, Transcript([text], [""]), {"id": name, "output": []})


def open_entries(path: Path, failures: Failures, keep_days: int = 30) -> SqliteEntries:
    """A store of entries on a file, and what it says."""
    writer = SqliteWriter(path, LEDGER, on_failure=lambda *seen: failures.append(seen))
    return SqliteEntries(writer, keep_days=keep_days, explain=explain_shortly)


def open_sessions(path: Path, failures: Failures) -> SqliteSessions:
    """A store of sessions on a file, and what it says."""
    return SqliteSessions(SqliteWriter(path, LEDGER, on_failure=lambda *seen: failures.append(seen)))


def open_responses(path: Path, failures: Failures, **more) -> SqliteResponses:
    """A store of responses on a file, and what it says."""
    return SqliteResponses(SqliteWriter(path, RESPONSES, on_failure=lambda *seen: failures.append(seen)), **more)


def remove_database(path: Path) -> None:
    """Delete a database and what SQLite keeps with it."""
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
