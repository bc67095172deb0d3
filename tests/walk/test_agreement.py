"""Every surface shows the figures of an afternoon alike: page, `tandem serve`, `tandem stats` and `/metrics`."""

import asyncio
import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from router.cli.demo import play_afternoon
from router.cli.demo.afternoon import write_config
from router.stores.sqlite.past import wait_for_writer
from tests.tools.http import call
from tests.tools.running import read_entries, running
from tests.tools.terminal import Terminal, run_in_terminal
from tests.tools.waiting import later, until
from tests.walk.worked_afternoon import CONFIG, Session, add_by_hand, play

SPEED = 10.0
TANDEM = [sys.executable, "-m", "router.cli"]


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


def read_metrics(text: str) -> dict:
    return {(sample.name, *sorted(sample.labels.values())): sample.value for family in parse(text) for sample in family.samples}


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
            [*TANDEM, "stats", "--json", "--config", str(config)],
            capture_output=True,
            check=True,
        )
    figures = read_metrics(text)
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


def run(folder: Path, *arguments: str) -> str:
    return subprocess.run([*TANDEM, *arguments], cwd=folder, capture_output=True, check=True, text=True).stdout


async def find_port(terminal: Terminal) -> int:
    lines = await asyncio.to_thread(terminal.wait_for, lambda lines: any("Ctrl-C stops" in line for line in lines))
    return int(re.search(r"http://127\.0\.0\.1:(\d+)", "\n".join(lines))[1])


async def mark(port: int, sessions: list[Session]) -> dict[str, str]:
    """Mark the first quick turn of every third session, most of them as wrong."""
    marks = {}
    for number, session in enumerate(sessions[::3]):
        for request in session.asked[:1]:
            tier = "fast" if number == 4 else "deep"
            if (await call(port, f"/tandem/wrong/{request}", {"tier": tier})).json["marked"]:
                marks[request] = tier
    return marks


def check_variety(rows: list[dict], sessions: list[Session], by_hand: dict) -> None:
    """Whether there was everything that the sums must get right."""
    decided = [(row, json.loads(row["decision"])) for row in rows if row["decision"]]
    assert any(row["tier"] == "deep" and decision["tier"] == "fast" for row, decision in decided), "no spill"
    assert {row["outcome"] for row in rows} == {"SERVED", "REFUSED", "ABANDONED"}
    jobs = {job for session in sessions for job in session.jobs}
    assert jobs
    assert jobs <= {row["id"] for row in rows}
    assert all(by_hand["redone"].values())
    assert all(by_hand["left_out"].values())
    assert 0 < by_hand["fast_turns"] < by_hand["turns"]


async def test_300_turns_are_worth_the_same_on_every_surface_and_by_hand(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "config.yaml").write_text(CONFIG)
    with run_in_terminal([*TANDEM, "serve", "--port", "0"], tmp_path, columns=220) as terminal:
        port = await find_port(terminal)
        printed = later(asyncio.to_thread(terminal.finish, 600.0))
        sessions = await play(port)
        marks = await mark(port, sessions)
        await asyncio.to_thread(wait_for_writer, tmp_path / "test.db")
        rows = read_entries(tmp_path / "test.db")

        page = (await call(port, "/tandem/savings?since=24h")).json
        told = (await call(port, "/tandem/stats")).json["savings"]
        figures = read_metrics((await call(port, "/metrics")).body.decode())
        stats = json.loads(await asyncio.to_thread(run, tmp_path, "stats", "--json"))
        text = (await asyncio.to_thread(run, tmp_path, "stats")).splitlines()
        terminal.type(b"\x03")
        last = [line for line in await printed if line][-1]

    by_hand = add_by_hand(rows, marks)
    check_variety(rows, sessions, by_hand)
    for found in (page, stats["savings"], told):
        assert {name: found[name] for name in by_hand} == by_hand
    for name in ("spent", "all_deep", "saved", "redone"):
        seconds, usd = by_hand[name]["seconds"], by_hand[name]["usd"]
        assert figures["tandem_savings_seconds", name] == seconds
        assert figures["tandem_savings_usd", name] == usd
    assert figures["tandem_redone_turns",] == by_hand["redone"]["turns"]
    assert round(stats["total"]["cost_usd"], 8) == by_hand["spent"]["usd"]
    assert round(stats["total"]["seconds"], 3) == by_hand["spent"]["seconds"]
    sentence = page["sentence"]
    assert re.search(r"\$([\d.]+)", sentence)[1] == f"{abs(by_hand['saved']['usd']):.2f}"  # from ten cents on
    assert abs(by_hand["saved"]["usd"]) >= 0.0995
    assert f"; {by_hand['redone']['turns']} turns were redone (" in sentence
    assert {found["sentence"] for found in (stats["savings"], told)} == {sentence}
    assert sentence in text
    turns, fast, spent = by_hand["turns"], by_hand["fast_turns"], by_hand["spent"]["usd"]
    refused = by_hand["left_out"]["refused"]
    assert last == f"{turns} turns, {fast} fast, {turns - fast} deep, ${spent:.2f}; {sentence}; {refused} refused"
