"""Responses in a Valkey or Redis server: what is sent there, for how long, and what is made of foreign values."""

import asyncio
import time

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

pytest.importorskip("hiredis")

from router.contract.stores import StoreUnusable
from router.stores.places import DELETED, UNKNOWN
from router.stores.valkey.link import Link
from router.stores.valkey.responses import KEPT_SECONDS, MAX_BYTES, ValkeyResponses
from tests.tools.kept import ANN, make_response
from tests.tools.waiting import until


@pytest.fixture
async def place(valkey):
    link = Link(valkey.terms())
    place = ValkeyResponses(link)
    await link.open()
    yield place
    await link.close()


def _keys(valkey) -> list[str]:
    return [word.decode() for word in valkey.send("KEYS", "*").split(b"\r\n") if word.startswith(b"test")]


async def test_a_response_is_gone_an_hour_after_it_was_made(valkey, place):
    await place.keep(make_response(at=time.time() - KEPT_SECONDS + 60, item_ids=["msg_a"]))

    left = {key.split(":", 2)[2]: int(valkey.send("PTTL", key)[1:]) for key in _keys(valkey)}

    assert all(0 < milliseconds <= 60_000 for name, milliseconds in left.items() if not name.startswith("o:")), left
    assert len(left) == 3


async def test_no_name_and_no_id_can_be_read_from_a_key(valkey, place):
    await place.keep(make_response(item_ids=["msg_a"]))

    assert not [key for key in _keys(valkey) if "ann" in key or "resp" in key or "msg" in key]


async def test_a_response_of_more_than_eight_mebibytes_is_not_sent(place):
    large = make_response()._replace(raw=b"x" * (MAX_BYTES + 1))

    with pytest.raises(StoreUnusable, match="too large"):
        place.send(large)
    await place.keep(large._replace(raw=large.raw[1:]))

    assert (await place.find("resp_1", ANN)).response.raw == large.raw[1:]


@pytest.mark.parametrize("value", [b"", b"hello", b"R", b"R\x93\x01\x02\x03", b"\xff"])
async def test_a_value_of_another_program_counts_as_not_there_and_is_reported(valkey, place, value):
    await place.keep(make_response())
    key = next(key for key in _keys(valkey) if key.count(":") == 2)
    valkey.send("SET", key, value)

    with capture_logs() as logs:
        assert await place.find("resp_1", ANN) == UNKNOWN

    assert [(line["event"], line["kind"]) for line in logs] == [("store.value_unreadable", "responses")]


async def test_a_record_of_another_id_is_not_the_response_that_was_asked_for(valkey, place):
    await place.keep(make_response())
    key = next(key for key in _keys(valkey) if key.count(":") == 2)
    await place.keep(make_response("resp_2"))
    valkey.send("COPY", next(other for other in _keys(valkey) if other.count(":") == 2 and other != key), key, "REPLACE")

    with capture_logs() as logs:
        assert await place.find("resp_1", ANN) == UNKNOWN

    assert [line["event"] for line in logs] == ["store.value_unreadable"]
    assert (await place.find("resp_2", ANN)).response.id == "resp_2"


async def test_a_key_of_another_kind_is_no_crash(valkey, place):
    await place.keep(make_response())
    key = next(key for key in _keys(valkey) if key.count(":") == 2)
    valkey.send("DEL", key)
    valkey.send("LPUSH", key, "x")

    with pytest.raises(StoreUnusable):
        await place.find("resp_1", ANN)


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_write_that_is_slow_or_late_does_not_bring_back_what_was_deleted_meanwhile(place, is_late):
    await place.delete("resp_1", ANN)

    await place.keep(make_response(), is_late=is_late)

    assert await place.find("resp_1", ANN) == DELETED


async def test_every_router_hears_of_a_deletion(valkey, place):
    link = Link(replace(valkey.terms(), prefix=place.link.prefix))
    other, heard = ValkeyResponses(link), []
    other.on_gone = lambda *gone: heard.append(gone)
    await link.open()

    await place.delete("resp_1", ANN)
    await link.ask("PING")

    assert heard == [("resp_1", ANN)]
    await link.close()


async def test_what_is_missing_or_was_deleted_is_told_apart_from_what_is_there(place):
    there, gone, missing = (make_response(f"resp_{number}") for number in range(3))
    await place.keep(there)
    await place.delete(gone.id, ANN)

    keys = [(ANN, response.id) for response in (there, gone, missing)]
    assert await place.sort_out(keys) == ([keys[2]], [keys[1]])
    assert await place.sort_out([]) == ([], [])


async def test_a_full_server_still_deletes_and_passes_on_that_it_lacks_responses(own_valkey):
    link = Link(own_valkey.terms())
    place, heard = ValkeyResponses(link), asyncio.Event()
    place.on_unwritten = heard.set
    await link.open()
    await place.keep(make_response())
    own_valkey.send("CONFIG", "SET", "maxmemory", "1mb")

    with pytest.raises(StoreUnusable, match="OOM"):
        await place.keep(make_response("resp_2"))
    place.report_unwritten()
    await heard.wait()
    await place.delete("resp_1", ANN)

    assert await place.find("resp_1", ANN) == DELETED
    await link.close()


async def test_a_response_is_over_when_the_server_would_have_forgotten_it(place):
    assert [place.is_over(make_response(at=time.time() - KEPT_SECONDS + seconds)) for seconds in (-1, 60)] == [True, False]


@pytest.mark.parametrize("message", [b"\x92\xa6resp_1\xa3ann", b"\x93\xa6resp_1\xa3ann\xa5later"], ids=["recorded", "longer"])
async def test_a_deletion_that_a_router_of_another_release_announced_is_taken(place, message):
    heard = []
    place.on_gone = lambda *gone: heard.append(gone)

    await place.link.ask("PUBLISH", place.link.key("r", "gone"), message)
    await until(lambda: heard)

    assert heard == [("resp_1", ANN)]
