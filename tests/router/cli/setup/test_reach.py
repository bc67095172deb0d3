"""What a running router says to a key, before a client is pointed at it."""

import asyncio

import pytest

from router.cli import Ended
from router.cli.setup.reach import ClientKey, ask_router, read_key
from tests.conftest import SIMULATED
from tests.tools.keyed import KEYS, write_keys


@pytest.fixture
async def keyed(start, tmp_path):
    """A router that asks for keys, and one of them."""
    key = write_keys(tmp_path, ada="")["ada"]
    return await start(KEYS + SIMULATED), ClientKey("MY_KEY", key.text)


def send(answer):
    async def script(wire, seen):
        await wire.send(answer)

    return script


async def ask(url, key):
    return await asyncio.to_thread(ask_router, url, key)


async def test_a_router_tells_its_models_to_a_key_that_it_knows(keyed):
    tandem, key = keyed

    told = await ask(tandem.url, key)

    assert {"auto", "fast", "deep"} <= set(told)


async def test_a_key_that_is_not_accepted_is_named_by_its_variable_alone(keyed):
    tandem, key = keyed
    wrong = key._replace(value=key.value[:-1] + ("a" if key.value[-1] != "a" else "b"))

    with pytest.raises(Ended, match=r"does not accept the key in MY_KEY \(401\)") as ended:
        await ask(tandem.url, wrong)

    assert wrong.value not in ended.value.text


async def test_a_router_that_asks_for_a_key_is_not_connected_to_without_one(keyed):
    with pytest.raises(Ended, match=r"asks for a key \(401\)") as ended:
        await ask(keyed[0].url, None)

    assert "then --key-env NAME" in ended.value.text


async def test_a_key_that_is_not_set_is_not_checked(keyed, capsys):
    assert await ask(keyed[0].url, ClientKey("MY_KEY", "")) is None

    said = capsys.readouterr().err
    assert "MY_KEY is not set here, so the key was not checked" in said


async def test_a_redirect_does_not_take_the_key_along(upstream, other_upstream):
    elsewhere = f"{other_upstream.base_url}/models".encode()
    upstream.scripts = [send(b"HTTP/1.1 302 Found\r\nlocation: %s\r\ncontent-length: 0\r\n\r\n" % elsewhere)]
    other_upstream.scripts = [send(b'HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n{"data": []}')]

    await ask(upstream.base_url.removesuffix("/v1"), ClientKey("MY_KEY", "the-key"))

    assert upstream.seen[0].headers["authorization"] == "Bearer the-key"
    assert "authorization" not in other_upstream.seen[0].headers


@pytest.mark.parametrize("given", ["tdm_0a1b2c3d_" + "Ab1-" * 10 + "xyz", "a b", "", "9KEY", "sk-proj-1234567890abcdefgh"])
def test_a_key_in_the_place_of_a_variables_name_is_refused_and_not_repeated(given):
    with pytest.raises(Ended, match="takes the name of an environment variable") as ended:
        read_key(given)

    assert not given or given not in ended.value.text


def test_a_line_break_after_the_key_is_no_part_of_it(monkeypatch):
    monkeypatch.setenv("MY_KEY", "k\n")

    assert read_key("MY_KEY") == ("MY_KEY", "k")
