"""The link to a real server: answers in order, one breaker, and nobody who waits for a server that is away."""

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest
from structlog.testing import capture_logs

pytest.importorskip("hiredis")

from router.contract.secret import Secret
from router.contract.shared import ValkeyTerms
from router.stores.valkey.link import Address, Link, LinkRefused, Refusals, Refusing, Script
from router.stores.valkey.wire import Away, Refused
from tests.tools.valkey import LOCKED_USER, PASSWORD
from tests.tools.waiting import until


@pytest.fixture
async def link(valkey):
    link = Link(valkey.terms())
    await link.open()
    yield link
    await link.close()


@asynccontextmanager
async def answering(path, name_replies):
    """A server that answers what each connection sends with the replies that are named for it, and then says nothing more."""
    tasks: list[asyncio.Task | None] = []

    async def answer(reader, writer):
        tasks.append(asyncio.current_task())
        replies = iter(name_replies(len(tasks)))
        with suppress(ConnectionError):
            while await reader.read(1_000):
                writer.write(next(replies, b""))
        writer.close()

    async with await asyncio.start_unix_server(answer, path):
        yield
    await asyncio.gather(*(task for task in tasks if task is not None))


async def test_answers_come_back_in_the_order_in_which_commands_were_sent(link):
    asked = [link.ask("ECHO", f"word {number}") for number in range(100)]

    assert await asyncio.gather(*asked) == [f"word {number}".encode() for number in range(100)]
    assert link.trips == 100 + 2  # and the greeting


async def test_the_time_that_the_server_takes_is_counted(link):
    await link.ask("BLPOP", "no list", "0.05")

    assert link.seconds > 0.01  # the loop's clock counts milliseconds


async def test_a_script_runs_with_its_keys_and_arguments(valkey):
    link = Link(valkey.terms())
    script = link.register(Script("return {KEYS[1], ARGV[1]}"))
    await link.open()

    assert await link.run(script, ["a key"], 7) == [b"a key", b"7"]
    await link.close()


async def test_an_error_is_told_to_the_one_who_asked_by_its_first_word(link):
    await link.ask("SET", "text", "words")

    with pytest.raises(Refused) as caught:
        await link.ask("HGETALL", "text")
    assert caught.value.code == "WRONGTYPE"
    assert await link.ask("GET", "text") == b"words"


async def test_what_is_told_soon_is_sent_together_and_before_the_link_closes(valkey):
    link = Link(valkey.terms())
    await link.open()
    link.send_soon("SET", "one", "1")
    link.send_soon("SET", "two", "2")
    assert link.trips == 2

    await link.close()
    assert valkey.send("MGET", "one", "two") == b"*2\r\n$1\r\n1\r\n$1\r\n2\r\n"


async def test_messages_of_another_router_are_heard_next_to_answers(valkey, link):
    heard: list[bytes] = []
    listener = Link(valkey.terms())
    listener.subscribe("news", heard.append)
    await listener.open()

    asked = listener.ask("ECHO", "first")
    await link.ask("PUBLISH", "news", b"\x00 something")
    assert await asked == b"first"
    await until(lambda: heard)
    assert heard == [b"\x00 something"]
    await listener.close()


async def test_a_user_that_may_not_use_the_channels_is_refused_and_no_answer_goes_to_another(valkey):
    valkey.send("ACL", "SETUSER", "deaf", "on", f">{PASSWORD}", "~*", "resetchannels", "+@all")
    link = Link(valkey.terms(url=valkey.url("deaf", PASSWORD)))
    link.subscribe(link.key("news"), print)

    with pytest.raises(LinkRefused, match=f"may not use the channels: give it &{link.prefix}:\\*"):
        await link.open()
    await link.close()


async def test_a_channel_that_is_taken_away_later_costs_the_link_and_no_answer_goes_to_another(own_valkey):
    own_valkey.send("ACL", "SETUSER", "deaf", "on", f">{PASSWORD}", "~*", "&*", "+@all")
    link = Link(own_valkey.terms(url=own_valkey.url("deaf", PASSWORD)))
    link.subscribe(link.key("news"), print)
    await link.open()
    own_valkey.send("ACL", "SETUSER", "deaf", "resetchannels")

    await until(lambda: not link.is_up)
    with pytest.raises(LinkRefused, match="may not use the channels"):
        await link.connect()

    own_valkey.send("ACL", "SETUSER", "deaf", "&*")
    await until(lambda: link.is_up)
    assert await asyncio.gather(*(link.ask("ECHO", word) for word in "abc")) == [b"a", b"b", b"c"]
    await link.close()


async def test_much_that_is_read_at_once_is_no_reason_to_close_a_link_that_listens(own_valkey):
    own_valkey.send("CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 1mb 60")
    link = Link(own_valkey.terms())
    link.subscribe("news", print)
    await link.open()
    await link.ask("SET", "long", b"x" * (1 << 20))

    found = await asyncio.gather(*(link.ask("GET", "long") for _ in range(4)), return_exceptions=True)

    assert [len(value) if isinstance(value, bytes) else value for value in found] == [1 << 20] * 4
    assert link.losses == 0
    await link.close()


async def test_where_nothing_is_subscribed_there_is_one_connection(own_valkey):
    link = Link(own_valkey.terms())
    await link.open()
    assert own_valkey.send("CLIENT", "LIST").count(b"name=tandem") == 1

    listener = Link(own_valkey.terms())
    listener.subscribe("news", print)
    await listener.open()
    assert own_valkey.send("CLIENT", "LIST").count(b"name=tandem") == 3
    await link.close()
    await listener.close()


async def test_a_link_that_can_no_longer_listen_is_lost_and_made_again(own_valkey):
    heard: list[bytes] = []
    link = Link(own_valkey.terms())
    link.subscribe("news", heard.append)
    await link.open()

    own_valkey.send("CLIENT", "KILL", "TYPE", "pubsub")
    await until(lambda: link.losses == 1 and link.is_up)

    await link.ask("PUBLISH", "news", "word")
    await until(lambda: heard)
    assert own_valkey.send("CLIENT", "LIST").count(b"name=tandem") == 2
    await link.close()


async def test_a_connection_that_listens_and_is_no_longer_answered_is_noticed(tmp_path):
    greeting, time, confirmed = b"%0\r\n", b"*2\r\n$1\r\n9\r\n$1\r\n0\r\n", b">3\r\n+subscribe\r\n+news\r\n:1\r\n"

    async with answering(tmp_path / "socket", lambda number: (greeting, time) if number == 1 else (greeting, confirmed)):
        link = Link(ValkeyTerms(Secret(f"unix://{tmp_path}/socket"), 50))
        link.subscribe("news", print)
        await link.open()
        assert link.is_up

        await until(lambda: not link.is_up)
        await link.close()


async def test_a_server_that_does_not_answer_costs_the_limit_once_and_is_used_again_later(own_valkey, listen):
    read = listen()
    link = Link(own_valkey.terms(timeout_seconds=0.05))
    ups: list[int] = []
    link.on_up(lambda: ups.append(1))
    await link.open()
    own_valkey.pause()

    asked = [link.ask("ECHO", number) for number in range(3)]
    assert [type(error) for error in await asyncio.gather(*asked, return_exceptions=True)] == [Away] * 3
    with pytest.raises(Away, match="no connection"):
        link.ask("ECHO", 4)
    assert not link.is_up
    assert link.lost_at is not None

    own_valkey.resume()
    await until(lambda: link.is_up)
    assert await link.ask("ECHO", 5) == b"5"
    assert (len(ups), link.losses) == (2, 1)
    await link.close()
    assert [line["event"] for line in read()] == ["store.lost", "store.back"]


async def test_a_server_that_is_killed_is_found_again_with_its_scripts_and_channels(own_valkey):
    heard: list[bytes] = []
    link = Link(own_valkey.terms())
    script = link.register(Script("return ARGV[1]"))
    link.subscribe("news", heard.append)
    await link.open()
    own_valkey.kill()
    await until(lambda: not link.is_up)

    own_valkey.start()
    await until(lambda: link.is_up)
    assert await link.run(script, [], "again") == b"again"
    await link.ask("PUBLISH", "news", "word")
    await until(lambda: heard)
    await link.close()


async def test_scripts_that_somebody_deletes_are_brought_again(own_valkey):
    link = Link(own_valkey.terms())
    script = link.register(Script("return ARGV[1]"))
    await link.open()
    own_valkey.send("SCRIPT", "FLUSH")

    with pytest.raises(Refused, match="NOSCRIPT"):
        await link.run(script, [], "once")
    await until(lambda: link.is_up)
    assert await link.run(script, [], "again") == b"again"
    await link.close()


async def test_a_server_that_may_no_longer_be_written_to_is_left(own_valkey):
    link = Link(own_valkey.terms())
    await link.open()
    own_valkey.send("REPLICAOF", "127.0.0.1", "1")

    with pytest.raises(Refused, match="READONLY"):
        await link.ask("SET", "a", "b")
    assert link.lost_at is not None
    with pytest.raises(Away, match="is a replica"):
        await link.connect()
    await link.close()


async def test_a_full_server_is_still_asked_and_its_refusals_are_reported_once(own_valkey, listen):
    read = listen()
    link = Link(own_valkey.terms())
    script = link.register(Script("return redis.call('SET', KEYS[1], 'x')"))
    await link.open()
    own_valkey.send("CONFIG", "SET", "maxmemory", "1")

    for _ in range(2):
        with pytest.raises(Refused, match="OOM: its memory is full"):
            await link.run(script, ["a"])
    left = link.ask("SET", "a", "b")
    left.cancel()
    link.send_soon("SET", "a", "b")
    await link.close()

    assert link.refusals.count == 4
    assert link.losses == 0
    assert [(line["event"], line["reason"], line["count"]) for line in read()] == [
        ("store.refused", "OOM: its memory is full", 1)
    ]


async def test_a_server_that_is_away_at_the_start_is_no_fault(tmp_path, listen):
    read = listen()
    link = Link(ValkeyTerms(Secret(f"unix://{tmp_path}/nobody"), 50))

    await link.open()

    assert not link.is_up
    await link.close()
    assert [(line["event"], line["reason"]) for line in read()] == [
        ("store.lost", "the server cannot be reached (FileNotFoundError)")
    ]


@pytest.mark.parametrize(
    ("user", "password", "said"),
    [
        (LOCKED_USER, "wrong", "refused the user name or the password"),
        ("nobody", "x", "refused the user name or the password"),
        (LOCKED_USER, PASSWORD, ""),
    ],
)
async def test_a_password_that_is_refused_is_a_fault_of_the_start(valkey, user, password, said):
    link = Link(valkey.terms(url=valkey.url(user, password)))

    if not said:
        await link.open()
        assert link.is_up
    else:
        with pytest.raises(LinkRefused, match=said) as caught:
            await link.open()
        assert password not in str(caught.value)
    await link.close()


async def test_another_kind_of_server_is_never_taken_for_a_store(tmp_path):
    async def answer(reader, writer):
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_unix_server(answer, tmp_path / "socket"):
        link = Link(ValkeyTerms(Secret(f"unix://{tmp_path}/socket"), 1_000))
        with pytest.raises(LinkRefused, match="no Valkey or Redis server"):
            await link.open()
        await link.close()


@pytest.mark.parametrize(
    "replies",
    [
        (b"+OK\r\n",),
        (b"%1\r\n+server\r\n:7\r\n", b"+OK\r\n"),
        (b"%1\r\n+server\r\n+redis\r\n", b"+OK\r\n"),
        (b"%1\r\n+server\r\n+redis\r\n", b"*2\r\n+a\r\n+b\r\n"),
    ],
)
async def test_a_server_that_greets_in_another_way_is_not_used(tmp_path, replies):
    async with answering(tmp_path / "socket", lambda number: replies):
        link = Link(ValkeyTerms(Secret(f"unix://{tmp_path}/socket"), 5_000))
        with pytest.raises(LinkRefused, match="no Valkey or Redis server"):
            await link.open()
        await link.close()


async def test_another_server_in_its_place_is_reported_once_and_the_search_goes_on(own_valkey):
    link = Link(own_valkey.terms())
    await link.open()
    own_valkey.kill()
    await until(lambda: not link.is_up)
    own_valkey.socket.unlink(missing_ok=True)
    async with answering(own_valkey.socket, lambda number: (b"+OK\r\n",)):
        with capture_logs() as logs:
            await until(lambda: logs)
    own_valkey.socket.unlink(missing_ok=True)
    own_valkey.start()

    await until(lambda: link.is_up)
    assert [line["reason"] for line in logs] == ["what answers there is no Valkey or Redis server"]
    await link.close()


async def test_a_connection_that_breaks_in_the_midst_of_an_answer_fails_all_who_wait(tmp_path):
    async def answer(reader, writer):
        for reply in (b"%1\r\n+server\r\n+redis\r\n", b"*2\r\n$1\r\n9\r\n$1\r\n0\r\n", b"$5\r\nhal"):
            await reader.read(1_000)
            writer.write(reply)
        writer.close()

    async with await asyncio.start_unix_server(answer, tmp_path / "socket"):
        link = Link(ValkeyTerms(Secret(f"unix://{tmp_path}/socket"), 5_000))
        await link.open()
        with pytest.raises(Away, match="closed"):
            await link.ask("GET", "a")
        await link.close()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://h", Address("h", 6379, "", is_tls=False, user="", password="", database=0)),
        ("rediss://u:p%40ss@h:7000/3", Address("h", 7000, "", is_tls=True, user="u", password="p@ss", database=3)),
        ("unix://:p@/run/a%20b.sock", Address("", 0, "/run/a b.sock", is_tls=False, user="", password="p", database=0)),
        ("valkey://[::1]:1/", Address("::1", 1, "", is_tls=False, user="", password="", database=0)),
    ],
)
def test_an_address_is_taken_apart(url, address):
    assert Address.read(url) == address


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_each_kind_of_refusal_is_reported_once_a_minute_with_the_count_of_all():
    clock = Clock()
    refusals = Refusals(clock)

    with capture_logs() as logs:
        for clock.now, code in ((100.0, "OOM"), (101.0, "OOM"), (102.0, "BUSY"), (159.0, "OOM"), (160.0, "OOM")):
            refusals.note(Refused(code))

    assert [(line["event"], line["reason"], line["count"]) for line in logs] == [
        ("store.refused", "OOM: its memory is full", 1),
        ("store.refused", "BUSY: it is busy with a script", 3),
        ("store.refused", "OOM: its memory is full", 5),
    ]


def test_a_server_refuses_from_the_first_refusal_until_a_minute_after_the_last():
    clock = Clock()
    refusals = Refusals(clock)
    assert refusals.current() is None

    refusals.note(Refused("OOM"))
    clock.now = 150.0
    refusals.note(Refused("ODD"))
    clock.now = 209.0
    assert refusals.current() == Refusing("ODD", 100.0)

    clock.now = 210.0
    assert refusals.current() is None
    refusals.note(Refused("OOM"))
    assert refusals.current() == Refusing("OOM: its memory is full", 210.0)


def test_a_key_that_another_program_uses_is_reported_and_is_no_refusal_of_the_server():
    refusals = Refusals(Clock())

    with capture_logs() as logs:
        refusals.note(Refused("WRONGTYPE"))

    assert [line["reason"] for line in logs] == ["WRONGTYPE: another program uses a key of ours"]
    assert refusals.current() is None
