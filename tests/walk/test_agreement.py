"""The page, `tandem stats` and `/metrics` agree after the demo's afternoon."""

import asyncio
import json
import subprocess
import sys
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from router.cli.demo import play_afternoon
from router.cli.demo.afternoon import write_config
from router.stores.sqlite.past import wait_for_writer
from tests.tools.running import running
from tests.tools.waiting import until

SPEED = 10.0


def get(url: str) -> dict:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


def get_all(url: str, name: str) -> list[dict]:
    found: list[dict] = []
    page = get(f"{url}?limit=20")
    while page["next"] is not None:
        found += page[name]
        page = get(f"{url}?limit=20&before={page['next']}")
    return found + page[name]


async def test_the_page_the_stats_and_the_metrics_agree_after_the_demos_afternoon(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(write_config("l.db", SPEED))
    async with running(config.read_text(), tmp_path) as router:
        await play_afternoon(router.url, (), SPEED, None)
        await until(lambda: not router.house.state.running)
        await asyncio.to_thread(wait_for_writer, tmp_path / "l.db")

        turns = await asyncio.to_thread(get_all, f"{router.url}/tandem/turns", "turns")
        opened = [await asyncio.to_thread(get, f"{router.url}/tandem/turns/{turn['id']}") for turn in turns]
        rows = [row for turn in opened for row in turn["rows"]]
        sessions = await asyncio.to_thread(get_all, f"{router.url}/tandem/sessions", "sessions")
        savings = await asyncio.to_thread(get, f"{router.url}/tandem/savings?since=24h")
        live = await asyncio.to_thread(get, f"{router.url}/tandem/stats")
        with await asyncio.to_thread(urllib.request.urlopen, f"{router.url}/metrics") as answer:
            text = answer.read().decode()
        told = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "router.cli", "stats", "--json", "--config", str(config)],
            capture_output=True,
            check=True,
        )
    figures = {
        (sample.name, *sorted(sample.labels.values())): sample.value for family in parse(text) for sample in family.samples
    }
    stats = json.loads(told.stdout)

    assert len(rows) == stats["total"]["calls"] == sum(session["calls"] for session in sessions) > 20
    assert stats["total"]["turns"] == sum(session["turns"] for session in sessions) == savings["turns"]
    for tier in ("fast", "deep"):
        served = sum(value for key, value in figures.items() if key[0] == "tandem_requests_total" and tier in key)
        assert served == stats["by_tier"][tier]["calls"] == sum(row["tier"] == tier for row in rows) > 0
    for kind in ("input", "output"):
        name = f"{kind}_tokens"
        counted = figures["tandem_tokens_total", kind]
        assert (
            counted == stats["total"][name] == sum(row[name] for row in rows) == sum(session[name] for session in sessions) > 0
        )
    for name in ("calls", "output_tokens"):
        assert sum(turn[name] or 0 for turn in turns) == pytest.approx(stats["total"][name])
    shown = {name: savings[name] for name in ("turns", "calls", "spent", "all_deep", "saved", "redone", "left_out", "sentence")}
    for other in (stats["savings"], live["savings"]):
        assert shown == {name: other[name] for name in shown}
    for name in ("spent", "all_deep", "saved", "redone"):
        assert figures["tandem_savings_seconds", name] == shown[name]["seconds"] != 0
    assert figures["tandem_redone_turns",] == shown["redone"]["turns"] > 0
