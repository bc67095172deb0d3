"""`POST /tandem/wrong/{id}`."""

import pytest

from router.contract.caller import LOCAL
from router.contract.errors import Unavailable
from router.edge.control.panel import Asked
from router.edge.control.wrong import Wrong
from router.stores.memory.entries import MemoryEntries
from router.stores.sqlite import past
from router.stores.sqlite.past import SqliteEntryReader
from tests.conftest import SIMULATED
from tests.tools.edge import LIMITS
from tests.tools.http import call, chat
from tests.tools.keyed import KEYS, Callers


def marks(tandem) -> dict[str, str]:
    """The tier that would have been right, by the call that began each marked turn."""
    history = SqliteEntryReader(tandem.loaded.ledger_path).read_history()
    return {entry.line.id: str(entry.should_be) for entry in history if entry.should_be is not None}


async def serve_turn(tandem, headers: dict[str, str] | None = None, **more: object) -> str:
    named = {"x-tandem-session": "mine", **(headers or {})}
    reply = await call(tandem.port, "/v1/chat/completions", chat(**more), named)
    assert reply.status == 200
    return reply.headers["x-tandem-request-id"]


@pytest.fixture
async def tandem(start):
    return await start(SIMULATED)


async def test_a_turn_is_marked_and_the_mark_is_taken_back(tandem):
    name = await serve_turn(tandem)

    marked = await call(tandem.port, f"/tandem/wrong/{name}", {"tier": "deep"})
    assert (marked.status, marked.json) == (200, {"marked": name, "unmarked": False, "tier": "deep"})
    assert marks(tandem) == {name: "deep"}

    undone = await call(tandem.port, f"/tandem/wrong/{name}", {"tier": "fast"})
    assert (undone.status, undone.json) == (200, {"marked": None, "unmarked": True, "tier": "fast"})
    assert marks(tandem) == {}


async def test_a_turn_can_be_marked_at_once(tandem, monkeypatch):
    monkeypatch.setattr(past, "_WRITTEN_SECONDS", 0.0)

    for _ in range(3):
        name = await serve_turn(tandem)
        assert (await call(tandem.port, f"/tandem/wrong/{name}", {"tier": "deep"})).status == 200


async def test_a_call_within_a_turn_marks_the_turn_that_it_belongs_to(tandem):
    name = await serve_turn(tandem)
    tool = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    told = [
        *chat()["messages"],
        {"role": "assistant", "tool_calls": [tool]},
        {"role": "tool", "tool_call_id": "call_1", "content": "retrun x"},
    ]
    later = await serve_turn(tandem, messages=told)

    marked = await call(tandem.port, f"/tandem/wrong/{later}", {"tier": "deep"})

    assert (later != name, marked.json["marked"]) == (True, name)


@pytest.mark.parametrize("body", [{}, {"tier": "auto"}, {"tier": None}, {"tier": ["fast"]}])
async def test_a_tier_must_be_named(tandem, body):
    name = await serve_turn(tandem)

    reply = await call(tandem.port, f"/tandem/wrong/{name}", body)

    assert (reply.status, reply.json["error"]["param"]) == (400, "tier")


async def test_an_unknown_turn_is_not_found(tandem):
    await serve_turn(tandem)
    await tandem.entries()

    for name in ("req_unknown", "%2e%2e", "req_'; DROP TABLE entries; --".replace(" ", "%20")):
        assert (await call(tandem.port, f"/tandem/wrong/{name}", {"tier": "deep"})).status == 404


async def test_callers_mark_their_own_turns_and_an_admin_all(start, tmp_path):
    callers = Callers(tmp_path, ada={"admin": True}, bob={}, eve={})
    tandem = await start(KEYS + SIMULATED)
    name = await serve_turn(tandem, callers["bob"])
    await tandem.entries()

    found = {
        who: (await call(tandem.port, f"/tandem/wrong/{name}", {"tier": "deep"}, callers[who])).status
        for who in ("eve", "bob", "ada")
    }

    assert found == {"eve": 404, "bob": 200, "ada": 200}


async def test_without_a_ledger_there_is_nothing_to_mark(start):
    tandem = await start(SIMULATED.replace("ledger: {path: test.db}", "ledger: {path: null}"))
    name = await serve_turn(tandem)

    assert (await call(tandem.port, f"/tandem/wrong/{name}", {"tier": "deep"})).status == 404


async def test_a_ledger_that_cannot_be_read_is_reported_without_its_path(tmp_path):
    async def body():
        yield b'{"tier": "deep"}'

    (page,) = Wrong(tmp_path / "gone.db", MemoryEntries(lambda kept: {}), lambda: LIMITS).pages

    with pytest.raises(Unavailable) as raised:
        await page.answer(Asked("req_1", LOCAL, {"request_id": "req_1"}, {}, {}, body()))

    assert str(tmp_path) not in raised.value.message
