"""The tables of docs/how-it-works/scale.md, made from figures of `scale.py`."""

import json
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.bench.simulated import Load

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/how-it-works/scale.md"
DAY_TURNS, PEAK_SHARE, ANSWER_TOKENS, TOKENS_A_SECOND, BUSY = 40, 0.2, 250, 30, 0.6
"""Assumed: a developer's turns in a day, the part of a day in its busiest hour, the tokens of an answer and of a stream in a
second, and how busy a core may be."""
BYTES_A_TOKEN = 4
ROUTERS = (2, 10, 50, 200, 500)
LOADS = (Load(600, 2.0), Load(6_000, 2.0), Load(600, 0.8, at_a_tenth=0.8))
DEVELOPERS = (100, 1_000, 10_000, 100_000)
Figures = dict[str, Any]

CORE = {
    "small": "a request of 600 B, repeated",
    "fresh": "600 B of new words",
    "agent": "an agent's next call, 50 KB",
    "piece": "a piece of one of 16 streams",
}
STORES = {
    "plain": "a request of 600 B in a session",
    "agent": "an agent's next call, 50 KB",
    "keyed": "a request with a key that has a limit",
}


def read_day(shared: Path = ROOT.parent / "shared") -> Figures:
    """A developer's calls: recorded turns of Claude Code and Codex, and the sizes of these clients' captured requests."""
    lines = (shared / "routing-data/rescue/turns.jsonl").read_text().splitlines()
    turns = [json.loads(line) for line in lines]
    grown, sizes = Counter[str](), list[int]()
    for turn in turns:
        grown[turn["session"]] += turn["ask_chars"]
        for *_, result_chars, words in turn["calls"]:
            sizes.append(grown[turn["session"]])
            grown[turn["session"]] += result_chars + words
        sizes.append(grown[turn["session"]])
    captured = [
        one["original_bytes"]
        for one in json.loads((shared / "wire/index.json").read_text())
        if one["client"] in ("codex", "claude-code") and one["purpose"] == "user_turn" and one["original_bytes"]
    ]
    return {"calls": len(sizes) / len(turns), "body_bytes": statistics.mean(captured) + statistics.mean(sizes)}


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---", *["--:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _round(figure: float, digits: int = 2) -> str:
    """Two significant digits, or all of a number from a hundred on."""
    if figure >= 100:
        return f"{figure:,.0f}"
    return f"{float(f'{figure:.{digits}g}'):,.10g}" if figure else "0"


def _percent(share: float) -> str:
    return f"{_round(100 * share)} %" if share >= 0.0005 else "0"


def show_core(found: Figures) -> str:
    rows = []
    for name, title in CORE.items():
        alone, shared = found[name]["alone"], found[name]["shared"]
        per_core = 1e6 / alone / TOKENS_A_SECOND if name == "piece" else 1e6 / alone
        what = f"streams of {TOKENS_A_SECOND} tokens a second" if name == "piece" else "requests a second"
        rows.append((title, f"{_round(alone)} µs", f"{_round(shared)} µs", f"{_round(per_core)} {what}"))
    return _table(("", "a router alone", "sharing both stores", "a core, alone"), rows)


def show_stores(found: Figures) -> str:
    rows = []
    for kind, title in STORES.items():
        cells = []
        for store in ("valkey", "postgres"):
            figures = found[kind][store]
            cells += [_round(figures["trips"]), f"{_round(figures['bytes'] / 1e3)} KB", f"{_round(figures['cpu_us'])} µs"]
        rows.append((title, *cells))
    idle = found["keyed"]
    rates = [idle[store]["idle"] for store in ("valkey", "postgres")]
    cells = [
        cell
        for rate in rates
        for cell in (_round(rate["trips"]), f"{_round(rate['bytes'] / 1e3)} KB", f"{_round(rate['cpu_us'])} µs")
    ]
    rows.append(("an idle router, each second", *cells))
    return _table(("", "Valkey: trips", "bytes", "its CPU", "PostgreSQL: trips", "bytes", "its CPU"), rows)


def show_limits(found: Figures) -> str:
    rows = []
    for count, figures in found.items():
        served = figures["served"]
        cells = [_percent(one["lost"]) for one in served] + ["–"] * (len(LOADS) - len(served))
        died = _percent(served[0]["lost_after_deaths"]) if len(served) > 1 else "–"
        most = _percent(max(one["most_of_limit"] for one in served))
        shares = _percent(figures["idle_share"]), _percent(figures["busy_share"])
        rows.append((count, *cells, died, most, _round(figures["asks"]), *shares))
    heads = ["routers", *(f"lost: {load.limit:,} a minute, {load.offered:g} × offered" for load in LOADS)]
    heads[-1] += f", {LOADS[-1].at_a_tenth:.0%} at a tenth of the routers"
    return _table(
        (*heads, "lost after a tenth died", "most in a minute", "questions a request", "server idle", "server busy"), rows
    )


def show_pulses(found: Figures) -> str:
    rows = (
        (
            count,
            f"{figures['median_seconds']:.2f} s",
            f"{figures['last_seconds']:.2f} s",
            f"{_round(figures['kb_a_second'])} KB",
            _percent(figures["cpu_share"]),
        )
        for count, figures in found.items()
    )
    return _table(("routers", "known after, median", "at the latest", "received each second", "of a core of each router"), rows)


def show_jobs(found: Figures) -> str:
    rows = (
        (
            count,
            f"{figures['median_seconds']:.1f} s",
            f"{figures['last_seconds']:.1f} s",
            _round(figures["claims"]),
            _round(figures["idle_claims"]),
        )
        for count, figures in found.items()
    )
    return _table(("routers", "taken over after, median", "at the latest", "claims for a job", "claims a second, idle"), rows)


def show_developers(found: Figures) -> str:
    """The busiest hour. Valkey's presence grows with the square of the routers: between simulated numbers, by that."""
    core, store, day = found["core"], found["stores"]["agent"], found["day"]
    cpu_us = core["agent"]["shared"] + ANSWER_TOKENS * core["piece"]["shared"]
    rows = []
    for developers in DEVELOPERS:
        rate = developers * DAY_TURNS * day["calls"] * PEAK_SHARE / 3_600
        cores = rate * cpu_us / 1e6
        routers = max(1, math.ceil(cores / BUSY))
        presence = _presence_share(found["limits"], routers)
        valkey = rate * store["valkey"]["cpu_us"] / 1e6 + presence
        rows.append(
            (
                f"{developers:,}",
                _round(rate),
                _round(rate * ANSWER_TOKENS / TOKENS_A_SECOND),
                f"{routers:,}",
                _percent(valkey),
                f"{_round(rate * store['valkey']['bytes'] * 8 / 1e6)} Mbit/s",
                _percent(rate * store["postgres"]["cpu_us"] / 1e6),
                f"{_round(rate * day['body_bytes'] * 8 / 1e6)} Mbit/s",
            )
        )
    heads = (
        "developers",
        "calls a second",
        "streams at once",
        "routers",
        "Valkey: of a core",
        "its network",
        "PostgreSQL: of a core",
    )
    return _table((*heads, "prompts"), rows)


def _presence_share(limits: Figures, routers: int) -> float:
    known = min((int(count) for count in limits), key=lambda count: abs(count - routers))
    return limits[str(known)]["idle_share"] * (routers / known) ** 2


def show_day(found: Figures) -> str:
    calls, tokens = DAY_TURNS * found["calls"], found["body_bytes"] / BYTES_A_TOKEN
    return (
        f"{DAY_TURNS} turns with {found['calls']:.1f} calls each: {calls:,.0f} calls of {tokens:,.0f} prompt tokens "
        f"and {ANSWER_TOKENS} answered ones, {calls * tokens / 1e6:,.0f} million tokens a day"
    )


SHOWN: dict[str, Callable[[Figures], str]] = {
    "core": show_core,
    "stores": show_stores,
    "limits": show_limits,
    "pulses": show_pulses,
    "jobs": show_jobs,
    "day": show_day,
}


def fill(page: str, found: Figures) -> str:
    """The page with the tables between its marks made from these figures, as far as they are there."""
    shown = {name: show(found[name]) for name, show in SHOWN.items() if name in found}
    if found.keys() >= {"core", "stores", "limits", "day"}:
        shown["developers"] = show_developers(found)
    for name, table in shown.items():
        mark, gap = re.escape(f"<!-- measured {name} -->"), "\n" if table.startswith("|") else ""
        text = f"<!-- measured {name} -->{gap}{table}{gap}<!-- end -->"
        page, count = re.subn(f"{mark}.*?<!-- end -->", lambda _, text=text: text, page, flags=re.DOTALL)
        assert count == 1, name
    return page
