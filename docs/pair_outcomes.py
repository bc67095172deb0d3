"""Pairs of models on public boards, task by task: what fast first with a check would have given next to deep alone.

The results tell which tasks a model solved, in how many calls and for how much. Seconds are modelled from the calls.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

TOKENS_A_CALL, TOOL_SECONDS = 300, 2.0
FAST_TTFT, FAST_SPEED = 0.3, 1000
DEEP_TTFT, DEEP_SPEED = 1.0, 65
KEPT = 0.95
"""The share of deep's score that still counts as the same."""
PAIRS = (
    ("gpt-5-mini", "sonnet-4.5"),
    ("gpt-5-mini", "opus-4.5"),
    ("deepseek-v3.2-r", "gemini-3-pro"),
    ("glm-4.6", "opus-4.5"),
    ("devstral-small", "opus-4.5"),
    ("gpt-oss-120b", "opus-4.5"),
)
"""The pairs that the page shows one by one."""

BOARD = "SWE-bench Verified with mini-SWE-agent"
SOURCE = "the repository of swe-bench.github.io at f1176b6, data/leaderboards.json"
WORKED_OUT = "2026-11-18"
"""The day on which the table of models was last worked out from the source."""
NAMES = {
    "opus-4.5": "claude-opus-4.5",
    "sonnet-4.5": "claude-sonnet-4.5",
    "opus-4": "claude-opus-4",
    "sonnet-4": "claude-sonnet-4",
    "qwen3-coder-480b": "qwen3-coder-480b-a35b-instruct",
}
"""Models that their providers call by another name than the board."""

Row = dict[str, str]


@dataclass(frozen=True)
class Check:
    """A look at fast's work: the share of its failures that it sends on to deep, and of its good work."""

    catch: float
    alarm: float

    def sends(self, is_solved: bool) -> float:
        return self.alarm if is_solved else self.catch


USUAL = Check(0.7, 0.1)
CHECKS = (Check(1.0, 0.0), Check(0.9, 0.1), USUAL, Check(0.5, 0.1))


@dataclass(frozen=True)
class Costs:
    """What a call takes, by tier. The results tell calls, not seconds."""

    tokens: float = TOKENS_A_CALL
    tools: float = TOOL_SECONDS

    @property
    def fast(self) -> float:
        return FAST_TTFT + self.tools + self.tokens / FAST_SPEED

    @property
    def deep(self) -> float:
        return DEEP_TTFT + self.tools + self.tokens / DEEP_SPEED


@dataclass(frozen=True)
class Outcome:
    """Fast first with a check, next to deep alone: score, seconds and money as shares of deep's."""

    solved: float
    score: float
    seconds: float
    money: float

    @property
    def keeps_score(self) -> bool:
        return round(self.score, 2) >= KEPT

    @property
    def is_sooner(self) -> bool:
        return self.seconds < 1


def run_both(rows: Sequence[Row], fast: str, deep: str, check: Check, costs: Costs | None = None) -> Outcome:
    """Fast does every task; what the check sends on, deep does again from the beginning."""
    costs = costs or Costs()
    solved = money = seconds = deep_solved = deep_money = deep_seconds = 0.0
    for row in rows:
        is_fast_right, is_deep_right = row[f"{fast}:ok"] == "1", row[f"{deep}:ok"] == "1"
        share = check.sends(is_fast_right)
        deep_takes, deep_costs = int(row[f"{deep}:calls"]) * costs.deep, float(row[f"{deep}:usd"])
        solved += (1 - share) * is_fast_right + share * is_deep_right
        seconds += int(row[f"{fast}:calls"]) * costs.fast + share * deep_takes
        money += float(row[f"{fast}:usd"]) + share * deep_costs
        deep_solved, deep_seconds, deep_money = deep_solved + is_deep_right, deep_seconds + deep_takes, deep_money + deep_costs
    return Outcome(solved / len(rows), solved / deep_solved, seconds / deep_seconds, money / deep_money)


def read_rows(folder: Path, name: str) -> list[Row]:
    with (folder / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def total(rows: Iterable[Row], column: str) -> float:
    return sum(float(row[column]) for row in rows)


@dataclass(frozen=True)
class Pair:
    """Two models of the board, the lower score first."""

    calls: float
    lead: float
    """Fast's score as a share of deep's."""
    got: Outcome


def weigh_every_pair(rows: Sequence[Row]) -> list[Pair]:
    models = [column.removesuffix(":ok") for column in rows[0] if column.endswith(":ok")]
    solved, calls = ({model: total(rows, f"{model}:{what}") for model in models} for what in ("ok", "calls"))
    return [
        Pair(calls[fast] / calls[deep], solved[fast] / solved[deep], run_both(rows, fast, deep, USUAL))
        for fast in models
        for deep in models
        if solved[fast] < solved[deep]
    ]


def write_table(rows: Sequence[Row]) -> str:
    """The table that `tandem check` and `tandem init` read: each model's score and calls."""
    lines = [
        "# How models did on a public board, for `tandem check` and `tandem init`. Written by docs/draw_time_and_quality.py.",
        f"# One run of each of {len(rows)} tasks; boards are contaminated, and agents' versions differ between rows.",
        f"name: {BOARD}",
        f"source: {SOURCE}",
        f'worked_out: "{WORKED_OUT}"',
        "models:",
    ]
    for model in (column.removesuffix(":ok") for column in rows[0] if column.endswith(":ok")):
        solved, calls = (total(rows, f"{model}:{what}") / len(rows) for what in ("ok", "calls"))
        lines.append(f"  {NAMES.get(model, model).replace('.', '-')}: {{solved: {solved:.3f}, calls: {calls:.1f}}}")
    return "\n".join([*lines, ""])


def rank(scored: Sequence[tuple[float, bool]]) -> float:
    """AUROC: how often a score puts a case above another that is none. 0.5 is chance."""
    yes, no = ([score for score, is_case in scored if is_case is wanted] for wanted in (True, False))
    return sum((a > b) + 0.5 * (a == b) for a in yes for b in no) / (len(yes) * len(no))
