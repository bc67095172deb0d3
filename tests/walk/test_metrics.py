"""`/metrics` as Prometheus sees it: consistent with the ledger, of fixed size, switched by a reload."""

import asyncio
import json
from collections import Counter
from itertools import pairwise

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from router.contract.spending import as_units
from tests.tools.http import LONG, call, chat, read_reply, request_bytes
from tests.tools.keyed import KEYS, Callers
from tests.tools.running import Running, two_targets
from tests.tools.upstream import CHAT_ANSWER, CHAT_STREAM_HEAD, GOOD_CHAT_STREAM, answer_json, chat_frame, stream
from tests.tools.waiting import until

PATH = "/v1/chat/completions"
PRICES = {"fast_extra": "price: {input: 0.7, output: 3.1},", "deep_extra": "price: {input: 5.3, output: 27},"}
OPENMETRICS = {"accept": "application/openmetrics-text;version=1.0.0"}


class Scraped:
    def __init__(self, text: bytes, parse=parse_plain) -> None:
        self.samples = [sample for family in parse(text.decode()) for sample in family.samples]

    def total(self, name: str, **labels: str) -> float:
        """The sum of all series with these labels."""
        found = [
            sample.value
            for sample in self.samples
            if sample.name == f"tandem_{name}" and labels.items() <= sample.labels.items()
        ]
        assert found, name
        return sum(found)

    def by(self, name: str, *labels: str) -> Counter:
        found: Counter = Counter()
        for sample in self.samples:
            if sample.name == f"tandem_{name}":
                found[tuple(sample.labels[label] for label in labels)] += sample.value
        return found

    @property
    def series(self) -> set[tuple]:
        return {(sample.name, *sorted(sample.labels.items())) for sample in self.samples}


async def scrape(tandem: Running, headers: dict[str, str] | None = None) -> Scraped:
    reply = await call(tandem.port, "/metrics", headers=headers)
    assert reply.status == 200, reply.body
    return Scraped(reply.body, parse_openmetrics if headers and "accept" in headers else parse_plain)


async def play_afternoon(tandem: Running, upstream, other_upstream) -> int:
    """Requests with every kind of end. Returns how many were admitted."""
    fails, serves = answer_json({"error": {"message": "down"}}, 503), answer_json(CHAT_ANSWER)
    both = (upstream, other_upstream)
    talk = {"x-tandem-session": "a long talk"}
    first, second = "rename usr to user in models.py", "now set the log level to warning"
    answered = [{"role": "user", "content": first}, {"role": "assistant", "content": "hi"}]
    sent = 0

    async def say(body, headers=None, fast=serves, deep=serves) -> None:
        nonlocal sent
        upstream.scripts, other_upstream.scripts = [fast], [deep]
        await call(tandem.port, PATH, body, headers)
        sent += 1

    for number in range(8):
        await say(chat(f"fix the typo in line {number}"))
    await say(chat(LONG))
    await say(chat(stream=True), fast=stream(*GOOD_CHAT_STREAM))
    await say(chat(LONG, stream=True), deep=stream(*GOOD_CHAT_STREAM))
    await say(chat(first), {**talk, "x-tandem-tier": "fast"})
    await say(
        {"model": "auto", "messages": [*answered, {"role": "user", "content": second}]}, {**talk, "x-tandem-tier": "deep"}
    )
    await say(chat(), fast=fails)
    await say(chat(LONG), fast=fails, deep=fails)
    await say(chat(stream=True), fast=stream(chat_frame("a"), ends=False))
    await say({**chat(), "model": "no-such-model"})
    await say(chat(), {"x-tandem-tier": "typo"})
    assert all(server.seen for server in both)
    return sent


async def test_after_an_afternoon_the_metrics_agree_with_the_sums_of_the_ledger(start, upstream, other_upstream):
    config = two_targets(upstream.base_url, other_upstream.base_url, **PRICES, extra="models: {'*': null}")
    tandem = await start(config)
    sent = await play_afternoon(tandem, upstream, other_upstream)
    rows = await tandem.entries(sent)
    calls = await asyncio.to_thread(tandem.built.ledger.read_sums, 0.0)

    figures = await scrape(tandem)

    def sums(field: str, tier: str | None = None) -> float:
        return sum(getattr(row, field) or 0 for row in calls if tier is None or row.tier == tier)

    assert len(rows) == sent == figures.total("requests_total") == sums("calls")
    for tier in ("fast", "deep"):
        assert figures.total("requests_total", tier=tier) == sums("calls", tier) > 0
        assert as_units(figures.total("cost_usd_total", tier=tier)) == as_units(sums("cost_usd", tier)) > 0
    assert figures.total("requests_total", outcome="FAILED") == sums("failed") > 0
    assert figures.total("requests_total", outcome="REFUSED") == sums("refused") > 0
    assert figures.total("tokens_total", kind="input") == sums("input_tokens") > 0
    assert figures.total("tokens_total", kind="output") == sums("output_tokens") > 0
    assert figures.total("ttft_seconds_count") == sums("firsts") > 0
    assert figures.total("ttft_seconds_sum") == pytest.approx(sums("first_seconds"), abs=1e-9)
    refused = sum(row["duration_ms"] for row in rows if row["outcome"] == "REFUSED") / 1000  # no time that anybody worked
    assert figures.total("request_seconds_sum") == pytest.approx(sums("seconds") + refused, abs=1e-9)
    assert figures.total("request_seconds_count") == figures.total("overhead_seconds_count") == sent


async def test_after_an_afternoon_the_metrics_agree_with_every_row_of_the_ledger(start, upstream, other_upstream):
    tandem = await start(two_targets(upstream.base_url, other_upstream.base_url, **PRICES, extra="models: {'*': null}"))
    rows = await tandem.entries(await play_afternoon(tandem, upstream, other_upstream))
    attempts = [attempt for row in rows for attempt in json.loads(row["attempts"])]
    decisions = [json.loads(row["decision"]) for row in rows if row["decision"]]
    tiers: dict[str, list[str]] = {}
    for row in rows:
        if row["session"] and row["outcome"] != "FAILED":
            tiers.setdefault(row["session"], []).append(row["tier"])
    hops = sum(before != after for session in tiers.values() for before, after in pairwise(session))

    figures = await scrape(tandem, OPENMETRICS)

    assert figures.by("requests_total", "tier", "target", "outcome") == Counter(
        (row["tier"] or "none", row["target"] or "none", row["outcome"]) for row in rows
    )
    assert figures.by("attempts_total", "target", "error") == Counter(
        (attempt["target"], attempt["error"] or "none") for attempt in attempts
    )
    assert figures.by("decisions_total", "tier", "decided_by") == Counter(
        (decision["tier"], decision["decided_by"]) for decision in decisions
    )
    assert figures.total("hops_total") == hops > 1
    assert figures.total("overhead_seconds_sum") == pytest.approx(sum(row["overhead_ms"] for row in rows) / 1000, abs=1e-9)


async def knock(port: int, requests: list[bytes]) -> Counter:
    """Send requests over one connection, and count statuses."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
    found: Counter = Counter()
    for request in requests:
        writer.write(request)
        found[(await read_reply(reader)).status] += 1
    writer.close()
    return found


async def test_names_paths_and_callers_that_nobody_knows_add_no_series(start, upstream, tmp_path):
    callers = Callers(tmp_path, ada={}, boss={"admin": True})
    metrics = "metrics: {callers: true}\nmodels: {'*': null}\n"
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, extra=KEYS + metrics))
    upstream.scripts = [answer_json(CHAT_ANSWER)]

    def strange(number: int) -> list[bytes]:
        name = f"typo-{number}"
        named = {**callers["ada"], "x-tandem-session": name, "user-agent": name}
        return [
            request_bytes(PATH, {**chat(), "model": name}, named),
            request_bytes(PATH, chat(), named),
            request_bytes(f"/v1/{name}/wp-login.php", None, callers["ada"]),
        ]

    await call(tandem.port, "/metrics", headers=callers["boss"])
    await knock(tandem.port, strange(0))
    await tandem.entries(2)
    before = await scrape(tandem, callers["boss"])

    answers = await knock(tandem.port, [request for number in range(1, 16) for request in strange(number)])
    await tandem.entries(32)
    after = await scrape(tandem, callers["boss"])

    assert answers == {200: 15, 404: 30}
    assert after.total("requests_total") == before.total("requests_total") + 30
    assert after.series == before.series
    assert after.by("caller_requests_total", "caller") == {("ada",): 32}


async def test_a_caller_without_a_valid_key_is_not_counted_at_all(start, upstream, tmp_path):
    callers = Callers(tmp_path, boss={"admin": True})
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, extra=f"{KEYS}metrics: {{callers: true}}"))
    await call(tandem.port, "/metrics", headers=callers["boss"])
    before = await scrape(tandem, callers["boss"])

    for number in range(10):
        await call(tandem.port, PATH, chat(), {"authorization": f"Bearer tdm_{number:08x}_{'x' * 43}"})

    assert (await scrape(tandem, callers["boss"])).series == before.series


async def test_a_reload_turns_metrics_off_and_on_and_keeps_the_counts_while_they_stay_on(start, upstream, tmp_path):
    config = two_targets(upstream.base_url, upstream.base_url)
    tandem = await start(config)
    upstream.scripts = [answer_json(CHAT_ANSWER)]

    async def reload(more: str) -> tuple[str, ...]:
        (tmp_path / "config.yaml").write_text(config.replace("name: spark", "name: swift") + more)
        return (await tandem.built.reloader.reload()).changes.applied

    await call(tandem.port, PATH, chat())
    await reload("metrics: {callers: true}")
    await call(tandem.port, PATH, chat())
    await tandem.entries(2)
    assert (await scrape(tandem)).by("requests_total", "target") == {("spark",): 1, ("swift",): 1}

    assert await reload("metrics: {on: false}") == ("metrics",)
    assert (await call(tandem.port, "/metrics")).status == 404
    await call(tandem.port, PATH, chat())
    await tandem.entries(3)

    await reload("metrics: {on: true}")
    await call(tandem.port, PATH, chat())
    await tandem.entries(4)
    assert (await scrape(tandem)).by("requests_total", "target") == {("swift",): 1}


async def test_another_key_of_the_metrics_is_used_after_a_reload_and_neither_is_ever_logged(
    start, upstream, tmp_path, monkeypatch, listen
):
    logged = listen()
    monkeypatch.setenv("OLD_SCRAPE", "old-s3cret")
    monkeypatch.setenv("NEW_SCRAPE", "new-s3cret")
    Callers(tmp_path, ada={})
    config = two_targets(upstream.base_url, upstream.base_url, extra=KEYS)
    tandem = await start(f"{config}metrics: {{key: env:OLD_SCRAPE}}")

    async def knocks() -> list[int]:
        sent = ("old-s3cret", "new-s3cret")
        return [(await call(tandem.port, "/metrics", headers={"authorization": f"Bearer {key}"})).status for key in sent]

    assert await knocks() == [200, 401]
    (tmp_path / "config.yaml").write_text(f"{config}metrics: {{key: env:NEW_SCRAPE}}")
    await tandem.built.reloader.reload()

    assert await knocks() == [401, 200]
    assert "s3cret" not in str(logged())


async def test_requests_in_flight_are_shown_while_they_run(start, upstream):
    tandem = await start(two_targets(upstream.base_url, upstream.base_url))
    go = asyncio.Event()

    async def held(wire, seen) -> None:
        await wire.send(CHAT_STREAM_HEAD)
        await go.wait()
        for piece in GOOD_CHAT_STREAM:
            await wire.chunk(piece)
        await wire.end_chunks()

    upstream.scripts = [held]
    async with asyncio.TaskGroup() as group:
        group.create_task(call(tandem.port, PATH, chat(stream=True)))
        await until(lambda: len(upstream.seen) == 1)
        during = await scrape(tandem)
        go.set()
    await tandem.entries(1)
    after = await scrape(tandem)

    assert during.total("in_flight_requests") == during.total("target_in_flight_requests", target="spark") == 1
    assert after.total("in_flight_requests") == after.total("target_in_flight_requests") == 0
    assert during.total("resident_memory_bytes") > 1 << 20
    assert during.total("ledger_lost_rows_total") == 0
