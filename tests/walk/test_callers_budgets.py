"""Callers' budgets: many requests at once, over a restart, and with all kinds of failures."""

import asyncio
import contextlib
import json
import sqlite3
import sys
import time
from datetime import UTC, datetime

import pytest

from router.config.load import check_config
from router.contract.keys import make_key
from router.contract.spending import as_units
from router.wiring.build import build_plan, known_names
from tests.tools.http import LONG, call, chat, request_bytes
from tests.tools.running import read_entries, running, two_targets
from tests.tools.sockets import open_socket
from tests.tools.upstream import CHAT_ANSWER, CHAT_STREAM_HEAD, DONE, GOOD_CHAT_STREAM, answer_json, chat_frame, silent, stream
from tests.tools.waiting import until

PATH = "/v1/chat/completions"
PRICES = {"fast_extra": "price: {input: 1, output: 10},", "deep_extra": "price: {input: 1, output: 10},"}
DIME = {"max_tokens": 10_000}
"""An answer of at most ten cents."""


def answer_of(tokens: int) -> dict:
    return {**CHAT_ANSWER, "usage": {"prompt_tokens": 20, "completion_tokens": tokens, "total_tokens": tokens + 20}}


async def eight_cents(wire, seen):
    """An answer of eight cents, or as many as it is capped at."""
    await answer_json(answer_of(min(8_000, seen.json["max_tokens"])))(wire, seen)


class Keys:
    def __init__(self, folder) -> None:
        self._path, self._key = folder / "keys.yaml", make_key()
        self.headers = {"authorization": f"Bearer {self._key.text}"}

    def write(self, rights: str) -> None:
        key = f"{{id: '{self._key.id}', sha256: {self._key.digest.hex()}, created: 2026-11-16}}"
        self._path.write_text(f"callers:\n  ada: {{{rights}, may_force: [fast, deep], keys: [{key}]}}\n")
        self._path.chmod(0o600)


@pytest.fixture
def keys(tmp_path):
    return Keys(tmp_path)


@pytest.fixture
def config(upstream, other_upstream):
    zone = f"Etc/GMT{datetime.now(UTC).hour - 12:+d}"  # about noon there: no day ends during a test
    extra = f"keys: {{file: keys.yaml}}\nbudgets: {{time_zone: {zone}}}"
    return two_targets(upstream.base_url, other_upstream.base_url, **PRICES, extra=extra)


@pytest.fixture
async def tandem(start, keys, config, upstream, other_upstream):
    """A Tandem whose caller has a dollar a day, with answers of eight cents."""
    keys.write("daily_usd: 1.0")
    upstream.scripts = other_upstream.scripts = [eight_cents]
    return await start(config)


async def ask(tandem, keys, **body):
    return await call(tandem.port, PATH, chat(**{**DIME, **body}), headers=keys.headers)


def budget(tandem) -> dict:
    return tandem.house.state.budgets.picture("ada")["day"]


def recorded(tandem) -> int:
    with contextlib.closing(sqlite3.connect(tandem.loaded.ledger_path)) as database:
        return sum(as_units(cost) for (cost,) in database.execute("SELECT cost_usd FROM entries WHERE cost_usd IS NOT NULL"))


async def test_fifty_at_once_do_not_spend_more_than_a_dollar_and_what_is_spent_is_what_the_ledger_says(tandem, keys, upstream):
    ends = asyncio.Condition()

    async def caller() -> int:
        """Retries after others have ended, until served or refused for the day."""
        while True:
            reply = await ask(tandem, keys)
            async with ends:
                if reply.status == 200 or reply.headers.get("x-should-retry") == "false":
                    ends.notify_all()
                    return reply.status
                if budget(tandem)["held_usd"]:
                    await ends.wait()

    statuses = await asyncio.gather(*(caller() for _ in range(50)))
    await until(lambda: recorded(tandem) == as_units(budget(tandem)["spent_usd"]))

    assert statuses.count(200) == len(upstream.seen) >= 12
    assert statuses.count(429) >= 30
    assert 0.99 <= budget(tandem)["spent_usd"] <= 1.0
    assert budget(tandem)["held_usd"] == 0


async def test_a_spent_budget_is_a_429_that_says_which_and_when_and_nobody_is_called(tandem, keys, upstream):
    for _ in range(12):
        assert (await ask(tandem, keys)).status == 200
    capped = await ask(tandem, keys)

    refused = await ask(tandem, keys)

    assert (
        capped.headers["x-tandem-dropped"]
        == f"capped at {upstream.seen[-1].json['max_tokens']} tokens by what is left of your budget"
    )
    assert (refused.status, refused.json["error"]["code"]) == (429, "budget_spent")
    assert "of your daily budget of 1.00 USD is left, and this request needs" in refused.json["error"]["message"]
    resets_at = datetime.fromisoformat(budget(tandem)["resets_at"]).timestamp()
    assert int(refused.headers["retry-after"]) == pytest.approx(resets_at - time.time(), abs=30)
    assert refused.headers["x-should-retry"] == "false"
    assert len(upstream.seen) == 13


async def test_every_answer_says_how_much_is_left_streamed_or_not(tandem, keys, upstream):
    first = await ask(tandem, keys)
    for _ in range(9):
        await ask(tandem, keys)
    whole = await ask(tandem, keys)
    upstream.scripts = [stream(*GOOD_CHAT_STREAM)]
    streamed = await ask(tandem, keys, stream=True, max_tokens=100)
    async with open_socket(tandem.port, **keys.headers) as socket:
        await socket.say("fix the typo", max_output_tokens=100)
        created = (await socket.until("response.created"))[-1]["response"]
        await socket.answer()

    assert first.headers["x-tandem-budget"] == "0.00; left_usd=1.0000; period=day"
    assert whole.headers["x-tandem-budget"] == "0.80; left_usd=0.1998; period=day"
    assert streamed.headers["x-tandem-budget"] == "0.88; left_usd=0.1197; period=day"
    assert created["metadata"]["x-tandem-budget"].startswith("0.88; left_usd=0.11")


async def test_what_was_recorded_counts_again_after_a_restart(keys, config, upstream, tmp_path):
    keys.write("daily_usd: 0.1015")
    upstream.scripts = [answer_json(answer_of(5_000))]
    async with running(config, tmp_path) as tandem:
        await ask(tandem, keys)
        await ask(tandem, keys)

    async with running(config, tmp_path) as again:
        assert budget(again)["spent_usd"] == pytest.approx(0.10004)
        refused = await ask(again, keys)

    assert (refused.status, len(upstream.seen)) == (429, 2)


async def test_what_was_recorded_counts_again_after_a_kill_in_the_middle(keys, config, upstream, tmp_path):
    keys.write("daily_usd: 0.1016")
    (tmp_path / "config.yaml").write_text(config)
    upstream.scripts = [answer_json(answer_of(5_000)), answer_json(answer_of(5_000)), silent]
    command = (sys.executable, "-m", "router.cli", "serve", "--port", "0", "--log", "json")
    router = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, stderr=asyncio.subprocess.PIPE)
    port = int(json.loads(await router.stderr.readline())["url"].rsplit(":", 1)[1])
    for _ in range(2):
        assert (await call(port, PATH, chat(**DIME), headers=keys.headers)).status == 200
    await until(lambda: len(read_entries(tmp_path / "test.db")) == 2)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request_bytes(PATH, chat(max_tokens=100), keys.headers))
    await until(lambda: len(upstream.seen) == 3)

    router.kill()
    await router.communicate()
    writer.close()

    async with running(config, tmp_path) as again:
        assert as_units(budget(again)["spent_usd"]) == recorded(again) == as_units(0.10004)
        assert budget(again)["held_usd"] == 0
        assert (await ask(again, keys)).status == 429


async def test_a_caller_who_leaves_pays_for_what_it_got_and_the_rest_is_free_again(tandem, keys, upstream):
    async def endless(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        await wire.chunk(GOOD_CHAT_STREAM[0])
        await asyncio.Event().wait()

    upstream.scripts = [endless]
    reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
    writer.write(request_bytes(PATH, chat(stream=True, **DIME), keys.headers))
    await reader.readuntil(b"data: ")
    assert budget(tandem)["held_usd"] > 0.1
    writer.close()
    (row,) = await tandem.entries(1)

    assert row["outcome"] == "ABANDONED"
    assert budget(tandem)["held_usd"] == 0
    assert as_units(budget(tandem)["spent_usd"]) == as_units(row["cost_usd"]) > 0


async def test_every_attempt_that_was_billed_is_paid(tandem, keys, upstream, other_upstream):
    upstream.scripts = [answer_json(b"<html>")]  # with a good status: its host bills the prompt

    reply = await ask(tandem, keys)
    (row,) = await tandem.entries(1)

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "sage")
    assert len(json.loads(row["attempts"])) == 2
    assert as_units(budget(tandem)["spent_usd"]) == as_units(row["cost_usd"]) > as_units(0.08)


async def test_a_further_attempt_that_cannot_be_paid_is_not_made(start, keys, config, upstream, other_upstream):
    keys.write("daily_usd: 0.11")
    tandem = await start(config)
    upstream.scripts = [answer_json(b"x" * 43_600)]  # not an answer, but as long as one that leaves nothing

    reply = await ask(tandem, keys)
    await tandem.entries(1)

    assert (reply.status, reply.json["error"]["code"]) == (429, "budget_spent")
    assert other_upstream.seen == []
    assert budget(tandem)["held_usd"] == 0
    assert as_units(budget(tandem)["spent_usd"]) == recorded(tandem) <= as_units(0.11)


async def test_counting_tokens_is_free_when_all_is_spent(start, keys, config, upstream):
    keys.write("daily_usd: 0.000001")
    tandem = await start(config)
    body = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}

    counted = await call(tandem.port, "/v1/messages/count_tokens", body, headers=keys.headers)

    assert counted.status == 200
    assert counted.json["input_tokens"] > 0
    assert (await ask(tandem, keys)).status == 429
    assert upstream.seen == []


async def test_a_reload_changes_a_budget_and_forgets_nothing(tandem, keys, config, upstream, tmp_path):
    await ask(tandem, keys)

    keys.write("daily_usd: 0.081")
    loaded = check_config(config, "test", tmp_path, known_names())
    tandem.house.swap(build_plan(loaded, tandem.house.state))
    refused = await ask(tandem, keys)
    keys.write("daily_usd: 0.2")
    loaded = check_config(config, "test", tmp_path, known_names())
    tandem.house.swap(build_plan(loaded, tandem.house.state))
    served = await ask(tandem, keys)

    assert (refused.status, served.status) == (429, 200)
    assert budget(tandem)["spent_usd"] == pytest.approx(0.16004)


async def test_an_answer_of_the_router_itself_is_free(start, keys, config, upstream):
    keys.write("daily_usd: 0.000001")
    tandem = await start(config)

    reply = await ask(tandem, keys, text="tier: deep")

    assert reply.status == 200
    assert upstream.seen == []


async def test_deep_is_held_and_paid_at_its_own_price(start, keys, config, other_upstream):
    keys.write("daily_usd: 1.0")
    other_upstream.scripts = [answer_json(answer_of(8_000))]
    tandem = await start(config.replace("price: {input: 1, output: 10}", "price: {input: 1, output: 100}"))

    reply = await ask(tandem, keys, text=LONG, max_tokens=9_000)

    assert reply.headers["x-tandem-target"] == "sage"
    assert budget(tandem)["spent_usd"] == pytest.approx(0.80002)


async def spend_share(tandem, keys, upstream, share: float) -> None:
    """Have this share of a dollar spent, by requests to fast."""
    upstream.scripts = [answer_json(answer_of(1_000))]
    while budget(tandem)["spent_usd"] < share:
        assert (await ask(tandem, keys)).status == 200


async def test_near_the_end_auto_leans_to_fast_then_is_fast_and_deep_is_by_wish(tandem, keys, upstream, other_upstream):
    other_upstream.scripts = [answer_json(answer_of(100))]
    early = await ask(tandem, keys, text=LONG)
    await spend_share(tandem, keys, upstream, 0.8)
    leaning = await ask(tandem, keys)
    await spend_share(tandem, keys, upstream, 0.95)

    late = await ask(tandem, keys, text=LONG)
    wish = await ask(tandem, keys, text=LONG, model="deep", max_tokens=500)

    assert (early.headers["x-tandem-target"], late.headers["x-tandem-target"]) == ("sage", "spark")
    assert leaning.headers["x-tandem-because"].endswith("; 80 % of today's budget is spent")
    assert "sage: 95 % of today's budget is spent), so fast serves this" in late.headers["x-tandem-because"]
    assert (wish.status, wish.headers["x-tandem-target"]) == (200, "sage")
    assert wish.headers["x-tandem-because"].endswith("; 96 % of today's budget is spent")


def with_dear_deep(config: str, **budgets: str) -> str:
    cheap, dear = (f"price: {{input: 1, output: {price}}}" for price in (10, 100))
    first, _, rest = config.partition(cheap)
    more = "".join(f"{name}: {value}, " for name, value in budgets.items())
    return f"{first}{cheap}{rest.replace(cheap, dear)}".replace("budgets: {", f"budgets: {{{more}")


@pytest.mark.parametrize(("near", "target"), [("lean", "spark"), ("refuse", "sage")])
async def test_a_long_task_goes_to_fast_where_the_rest_does_not_cover_deep(
    start, keys, config, upstream, other_upstream, near, target
):
    keys.write("daily_usd: 0.1")
    upstream.scripts = other_upstream.scripts = [answer_json(answer_of(100))]
    tandem = await start(with_dear_deep(config, near=near))

    reply = await ask(tandem, keys, text=LONG)

    assert reply.headers["x-tandem-target"] == target
    is_out = "sage: what is left of your budget does not cover it" in reply.headers["x-tandem-because"]
    assert is_out == (near == "lean")


@pytest.mark.parametrize(
    ("near", "status", "words"),
    [
        (
            "refuse",
            429,
            "spark failed (503), and sage is not tried: this request needs 0.026 USD for its prompt and a short answer ",
        ),
        ("lean", 503, "overloaded: spark (503), spark (503); sage is not tried: what is left of your budget does not cover it"),
    ],
)
async def test_a_spill_that_the_rest_does_not_cover_is_not_made_and_the_error_says_both(
    start, keys, config, upstream, other_upstream, near, status, words
):
    keys.write("daily_usd: 0.02")
    upstream.scripts = [answer_json({"error": {"message": "busy"}}, 503)]
    tandem = await start(with_dear_deep(config, near=near))

    reply = await ask(tandem, keys)

    assert (reply.status, other_upstream.seen) == (status, [])
    assert words in reply.json["error"]["message"]
    assert reply.headers.get("x-should-retry") != "false"
    assert tandem.house.state.budgets.find_troubles() == []


async def test_half_a_dollar_serves_two_hundred_edits_of_claude_codes_size_and_is_never_exceeded(
    start, keys, config, upstream, other_upstream
):
    keys.write("daily_usd: 0.5")
    cost = 0.0

    async def edit(wire, seen):
        nonlocal cost
        tokens = min(300, seen.json["max_tokens"])
        cost += (12_000 * 0.15 + tokens * 0.6) / 1e6
        usage = {"prompt_tokens": 12_000, "completion_tokens": tokens, "total_tokens": 12_000 + tokens}
        told = b"data: " + json.dumps({"id": "c", "choices": [], "usage": usage}).encode() + b"\n\n"
        await stream(chat_frame("done " * tokens), chat_frame(finish="stop"), told, DONE)(wire, seen)

    upstream.scripts = [edit]
    plain, fast, deep = (f"price: {{input: {price}}}" for price in ("1, output: 10", "0.15, output: 0.6", "5, output: 25"))
    tandem = await start(config.replace(plain, fast, 1).replace(plain, deep, 1))
    system = [{"type": "text", "text": "You are a coding agent. " * 2_000}]
    words = [{"role": "user", "content": "fix the typo in calc.py"}]
    body = {"model": "auto", "max_tokens": 32_000, "stream": True, "system": system, "messages": words}

    replies = [await call(tandem.port, "/v1/messages", body, headers=keys.headers)]
    while replies[-1].status == 200:
        replies.append(await call(tandem.port, "/v1/messages", body, headers=keys.headers))

    assert len(replies) > 200
    assert {reply.headers["x-tandem-tier"] for reply in replies[:-1]} == {"fast"}
    assert other_upstream.seen == []
    assert replies[-1].status == 429
    assert 0.49 < cost <= 0.5
