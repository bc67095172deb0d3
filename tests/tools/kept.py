"""Values that stores keep, and such stores."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from router.contract.caller import LOCAL, Caller
from router.contract.entry import COLUMNS, Attempt, Entry, Line
from router.contract.facts import Recorded
from router.contract.request import Json, JsonObject, Transcript
from router.contract.shared import PostgresTerms, SharedTerms, ValkeyTerms
from router.contract.stores import ResponseStore, StoredResponse
from router.contract.words import Dialect, Outcome, Tier, TurnKind
from router.past.rows import Call, Kept
from router.past.worth import fold
from router.stores.memory.responses import MemoryResponses
from router.stores.shared import Shared
from router.stores.sqlite.entries import SqliteEntries
from router.stores.sqlite.responses import SqliteResponses
from router.stores.sqlite.schemas import LEDGER, RESPONSES
from router.stores.sqlite.sessions import SqliteSessions
from router.stores.sqlite.writer import SqliteWriter

ANN, BOB = Caller("ann"), Caller("bob")
Failures = list[tuple[str, int]]

LINE = Line(
    id="req_1",
    at=1.0,
    caller="local",
    key=None,
    job=None,
    session="s",
    turn_kind=TurnKind.ASK,
    client="codex",
    dialect=Dialect.CHAT,
    model="auto",
    streaming=True,
    outcome=Outcome.SERVED,
    status=200,
    error=None,
    tier=Tier.FAST,
    target="spark",
    because="a quick edit",
    score=0.2,
    overhead_ms=0.3,
    ttft_ms=20.0,
    duration_ms=100.0,
    tokens_per_second=900.0,
    input_tokens=10,
    cached_tokens=4,
    output_tokens=5,
    reasoning_tokens=0,
    tokens_estimated=False,
    cost_usd=None,
    attempts=1,
)
ATTEMPTS = '[{"target":"spark","status":200,"error":null,"seconds":0.1}]'


def make_entry(name: str = "req_1", caller: Caller = LOCAL, **more) -> Entry:
    """A served request's entry, with a short decision and the columns that a test names."""
    own = {
        key: more.pop(key)
        for key in ("decision", "attempts", "person_text", "prompt_text", "answer_text", "places")
        if key in more
    }
    line = replace(LINE, **{"id": name, "at": time.time(), "caller": caller.name, **more})
    typed = f"typed for {name}"
    kept = json.dumps({"decided_by": "estimate", "person_text": typed if "prompt_text" in own else None})
    return Entry(line, **{"decision": kept, "attempts": ATTEMPTS, "person_text": typed, **own})


def make_call(name: str = "1", kind: str = "ask", tier: str | None = "fast", *, should_be: Tier | None = None, **more) -> Call:
    """A call of the past: of its line and of its decision, whatever a test names."""
    kept = {name: more.pop(name) for name in Kept.__struct_fields__ if name in more and name != "tier"}
    decided = more.pop("decided", tier)
    line = replace(LINE, id=name, turn_kind=kind, tier=tier, **{"cost_usd": 0.01, **more})
    return Call(line, Kept(tier=decided, **{"decided_by": "estimate", **kept}), should_be)


_COUNTED = {"at": 1_794_000_000.0, "session": "session", "client": "unknown", "ttft_ms": 200.0, "duration_ms": 1_500.0,
    "input_tokens": 100, "cached_tokens": 40, "output_tokens": 20, "reasoning_tokens": 5, "tokens_per_second": 120.0, "cost_usd": 0.0012}  # fmt: skip
UNDECIDED = dict.fromkeys(
    "tier target because score ttft_ms tokens_per_second input_tokens cached_tokens output_tokens reasoning_tokens cost_usd".split()
)
"""What a request lacks that was refused before a tier was chosen."""


def make_recorded(*attempts: Attempt, **changed) -> Recorded:
    """A served request for what counts them. Without attempts, one at its target that went well."""
    values = {**_COUNTED, **changed}
    target = values.get("target", LINE.target)
    made = attempts or ((Attempt(target, 200, None, 1.0),) if target else ())
    line = replace(LINE, **{**values, "attempts": len(made)})
    return Recorded(Entry(line, None, msgspec.json.encode(list(made)).decode()))


def explain_shortly(row: tuple[object, ...]) -> JsonObject | None:
    """A short decision, with the person's words."""
    values = dict(zip((*COLUMNS, "decision", "attempts"), row, strict=True))
    try:
        kept = json.loads(values["decision"])
        return {"request_id": values["id"], "because": values["because"], "person_text": kept["person_text"]}
    except (TypeError, ValueError):
        return None


def make_response(
    name: str = "resp_1", caller: Caller = ANN, at: float | None = None, text: str = "hi", item_ids: Sequence[str] = ()
) -> StoredResponse:
    """A response with an item for each id."""
    now = time.time() if at is None else at
    output: list[Json] = [{"type": "message", "id": item_id} for item_id in item_ids]
    response: JsonObject = {"id": name, "output": output}
    return StoredResponse.write(caller, "spark", now, Transcript([text], [""]), response, frozenset(item_ids))


def open_entries(path: Path, failures: Failures, keep_days: int = 30, **more) -> SqliteEntries:
    writer = SqliteWriter(path, LEDGER, on_failure=lambda *seen: failures.append(seen))
    return SqliteEntries(writer, keep_days=keep_days, explain=explain_shortly, fold=fold, **more)


def open_sessions(path: Path, failures: Failures) -> SqliteSessions:
    return SqliteSessions(SqliteWriter(path, LEDGER, on_failure=lambda *seen: failures.append(seen)))


def open_responses(path: Path, failures: Failures, **more) -> SqliteResponses:
    return SqliteResponses(SqliteWriter(path, RESPONSES, on_failure=lambda *seen: failures.append(seen)), **more)


def remove_database(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


class SharedPlace:
    """A Valkey server, a Postgres database or both, for the responses of several routers."""

    def __init__(self, valkey: ValkeyTerms | None, postgres: PostgresTerms | None) -> None:
        self.terms = SharedTerms("one", valkey, postgres)
        self.opened: list[tuple[Shared, ResponseStore]] = []

    async def open(self, own: MemoryResponses | None = None) -> ResponseStore:
        shared = Shared(self.terms)
        store = shared.share_responses(own or MemoryResponses())
        self.opened.append((shared, store))
        await shared.connect()
        return store

    async def close(self) -> None:
        for shared, store in self.opened:
            await store.close()
            await shared.close()
