"""Works out the figures of decide/savings.md, writes them into the page, and draws its two pictures.

Also writes the table of models that `tandem check` and `tandem init` read.

    .venv/bin/python docs/draw_time_and_quality.py FOLDER

FOLDER holds the public results, task by task, as CSV files. They are not part of the project: the page names where they come
from. What the script prints is what it put between the page's marks, so a figure on the page cannot differ from its source.
"""

import math
import random
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from pair_outcomes import (
    CHECKS,
    DEEP_SPEED,
    DEEP_TTFT,
    FAST_SPEED,
    FAST_TTFT,
    KEPT,
    PAIRS,
    TOKENS_A_CALL,
    TOOL_SECONDS,
    USUAL,
    Check,
    Costs,
    Pair,
    Row,
    rank,
    read_rows,
    run_both,
    total,
    weigh_every_pair,
    write_table,
)
from pair_pictures import draw_by_check, draw_by_pair

HERE = Path(__file__).resolve().parent / "decide"
PAGE = HERE / "savings.md"
BY_CHECK, BY_PAIR = HERE / "time-and-quality.svg", HERE / "where-two-tiers-pay.svg"
TABLE = HERE.parents[1] / "router" / "cli" / "setup" / "outcomes.yaml"
VERIFIED = "swebench-verified-mini-swe-agent.csv"
SHOWN = PAIRS[1]
NO_CHECK = Check(0.0, 0.0)
_TRIED_TOKENS, _TRIED_TOOLS = (150, 300, 1000), (0.5, 2.0, 5.0)
_RESAMPLINGS = 400
_BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def compute(folder: Path) -> tuple[dict[str, str], dict[Path, str]]:
    """What the page states, by the name of its block, and the pictures."""
    verified = read_rows(folder, VERIFIED)
    every_pair = weigh_every_pair(verified)
    blocks = {
        "assumptions": say_assumptions(len(verified)),
        "pairs": say_pairs(verified),
        "checks": say_checks(verified),
        "spread": say_spread(verified),
        "where": say_where(every_pair),
        "measured": say_measured(read_rows(folder, "swebench-pro-swe-agent.csv")),
        "again": say_again(read_rows(folder, "terminal-bench-core-0.1.1-trials.csv")),
        "beforehand": say_beforehand(verified, read_rows(folder, "swebench-verified-tandem-score.csv")),
    }
    return blocks, {BY_CHECK: draw_by_check(verified), BY_PAIR: draw_by_pair(every_pair)}


def percent(share: float, digits: int = 0) -> str:
    """A share as the docs write it."""
    return f"{100 * share:.{digits}f} %"


def say_assumptions(tasks: int) -> str:
    """The model behind the seconds, and the check."""
    return (
        f"- Outcomes, calls and cost are the published ones, one run of each of {tasks} tasks.\n"
        f"- Seconds are modelled. Each call takes {TOOL_SECONDS:g} s of tools and writes {TOKENS_A_CALL} tokens: on fast at "
        f"{FAST_SPEED:,} tokens a second, the first after {FAST_TTFT:g} s; on deep at {DEEP_SPEED}, the first after "
        f"{DEEP_TTFT:g} s.\n"
        f"- The check is assumed. Unless another one is named, it catches {percent(USUAL.catch)} of what fast got wrong, and "
        f"also sends on {percent(USUAL.alarm)} of what fast got right.\n"
        "- Deep starts again from the beginning, and its answer counts even where fast had been right."
    )


def say_pairs(rows: Sequence[Row]) -> str:
    """The pairs one by one, with the usual check."""
    lines = [
        "| fast → deep | fast alone | deep alone | fast first | score | time | cost | fast's calls |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for fast, deep in PAIRS:
        got = run_both(rows, fast, deep, USUAL)
        solved = [percent(share, 1) for share in (*(total(rows, f"{m}:ok") / len(rows) for m in (fast, deep)), got.solved)]
        calls = total(rows, f"{fast}:calls") / total(rows, f"{deep}:calls")
        shares = [f"{share:.2f}" for share in (got.score, got.seconds, got.money, calls)]
        lines.append(f"| {' | '.join((_name((fast, deep)), *solved, *shares))} |")
    return "\n".join(lines)


def say_checks(rows: Sequence[Row]) -> str:
    """One pair with checks of different strength."""
    lines = ["| the check catches | and wrongly sends on | score | time | cost |", "| --- | --- | --- | --- | --- |"]
    for check in (*CHECKS, NO_CHECK):
        got = run_both(rows, *SHOWN, check)
        shares = [f"{share:.2f}" for share in (got.score, got.seconds, got.money)]
        lines.append(f"| {' | '.join((percent(check.catch), percent(check.alarm), *shares))} |")
    return "\n".join(lines)


def say_spread(rows: Sequence[Row]) -> str:
    """How far the shown pair's figures move with the tasks and the assumptions, and what a check must be able to do."""
    chosen = random.Random(0)  # noqa: S311  a resampling, not a secret
    scores = sorted(run_both(chosen.choices(rows, k=len(rows)), *SHOWN, USUAL).score for _ in range(_RESAMPLINGS))
    outer = _RESAMPLINGS // 20
    times = [run_both(rows, *SHOWN, USUAL, Costs(n, s)).seconds for n in _TRIED_TOKENS for s in _TRIED_TOOLS]
    most, all_of_it = ([_find_catch(rows, *pair, share) for pair in PAIRS[:4]] for share in (0.97, 1.0))
    return (
        f"- The score of {_name(SHOWN)} is between {scores[outer]:.2f} and {scores[-1 - outer]:.2f} in nine of ten "
        "resamplings of the tasks.\n"
        f"- Its time is between {min(times):.2f} and {max(times):.2f} where a call writes {_TRIED_TOKENS[0]} to "
        f"{_TRIED_TOKENS[-1]:,} tokens and its tools take {_TRIED_TOOLS[0]:g} to {_TRIED_TOOLS[-1]:g} s.\n"
        f"- To keep 97 % of deep's score, the check must catch {100 * min(most):.0f} to {percent(max(most))} of fast's "
        f"failures in the first four pairs; to keep all of it, {100 * min(all_of_it):.0f} to {percent(max(all_of_it))}."
    )


def _find_catch(rows: Sequence[Row], fast: str, deep: str, share: float) -> float:
    """How many of fast's failures a check must catch; the score grows in proportion to that."""
    none, every = (run_both(rows, fast, deep, Check(catch, USUAL.alarm)).score for catch in (0.0, 1.0))
    return math.ceil(100 * (share - none) / (every - none)) / 100


def say_where(pairs: Sequence[Pair]) -> str:
    """What came of all the pairs, by what fast can do alone and by its calls."""
    weak, able = [pair for pair in pairs if pair.lead < 2 / 3], [pair for pair in pairs if pair.lead >= 2 / 3]
    lengthy, brief = [pair for pair in pairs if pair.calls >= 2], [pair for pair in able if pair.calls < 1.5]
    kept, sooner = [pair for pair in weak if pair.got.keeps_score], [pair for pair in lengthy if pair.got.is_sooner]
    paid = [pair for pair in brief if pair.got.keeps_score and pair.got.is_sooner]
    return (
        f"Of the {len(pairs)} pairs of models on the board, with that check:\n\n"
        f"- **Fast below two thirds of deep's score**: {len(kept)} of {len(weak)} keep {percent(KEPT)} of deep's score.\n"
        f"- **Fast with twice deep's calls or more**: {len(sooner)} of {len(lengthy)} take less time than deep alone.\n"
        "- **Two thirds of the score or more, and less than one and a half times the calls**: "
        f"{len(paid)} of {len(brief)} keep {percent(KEPT)} of the score and take less time. Their median is "
        f"{statistics.median(pair.got.seconds for pair in paid):.2f} of deep's time."
    )


def say_measured(rows: Sequence[Row]) -> str:
    """What speed alone gives, and one pair, where the seconds of tools are known."""
    timed = [row for row in rows if row["gpt-5:tool_s"] and row["sonnet-4.5:tool_s"]]
    told = []
    for model in ("gpt-5", "sonnet-4.5"):
        tools = total(timed, f"{model}:tool_s") / len(timed)
        quick, slow = (
            sum(_timed_seconds(row, model, *speed) for row in timed) / len(timed)
            for speed in ((FAST_TTFT, FAST_SPEED), (DEEP_TTFT, DEEP_SPEED))
        )
        told.append(f"{quick / slow:.2f} of the time for `{model}` (whose tools take {tools:.0f} s of {slow:.0f} s)")
    solved = deep_solved = seconds = deep_seconds = 0.0
    for row in timed:
        is_fast_right, is_deep_right = row["gpt-5:ok"] == "1", row["sonnet-4.5:ok"] == "1"
        share, takes = USUAL.sends(is_fast_right), _timed_seconds(row, "sonnet-4.5", DEEP_TTFT, DEEP_SPEED)
        solved += (1 - share) * is_fast_right + share * is_deep_right
        seconds += _timed_seconds(row, "gpt-5", FAST_TTFT, FAST_SPEED) + share * takes
        deep_solved, deep_seconds = deep_solved + is_deep_right, deep_seconds + takes
    money = run_both(timed, "gpt-5", "sonnet-4.5", USUAL).money
    return (
        f"- The same work at {FAST_SPEED:,} instead of {DEEP_SPEED} tokens a second takes {' and '.join(told)}; means of "
        f"{len(timed)} tasks.\n"
        f"- `gpt-5` first at {FAST_SPEED:,} tokens a second, then `sonnet-4.5`, with that check on the same tasks: "
        f"{solved / deep_solved:.2f} of the score, {seconds / deep_seconds:.2f} of the time, {money:.2f} of the cost."
    )


def _timed_seconds(row: Row, model: str, ttft: float, speed: float) -> float:
    return float(row[f"{model}:tool_s"]) + int(row[f"{model}:calls"]) * ttft + float(row[f"{model}:out_tokens"]) / speed


def say_again(trials: Sequence[Row]) -> str:
    """Two models in turn, next to one model twice."""
    runs: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for trial in trials:
        runs[trial["submission"]][trial["task"]].append(trial)
    fast, deep = runs["20250924_droid_gpt-5"], runs["20250923_droid_claude-4-1-opus"]
    tasks = sorted(fast.keys() & deep.keys())

    def means(model: dict[str, list[Row]], column: str) -> list[float]:
        return [total(model[task], column) / len(model[task]) for task in tasks]

    first, second, deep_takes = means(fast, "ok"), means(deep, "ok"), means(deep, "agent_s")
    mean = statistics.mean
    once, twice = mean(second), mean(1 - (1 - b) ** 2 for b in second)
    mixed = mean(1 - (1 - a) * (1 - b) for a, b in zip(first, second, strict=True))
    both = mean(s + (1 - a) * t for a, s, t in zip(first, means(fast, "agent_s"), deep_takes, strict=True))
    return (
        f"- `opus-4.1` alone solves {percent(once, 1)} in {mean(deep_takes):.0f} s. `gpt-5` and then, with a perfect check, "
        f"`opus-4.1` solve {percent(mixed, 1)} in {both:.0f} s. `opus-4.1` twice solves {percent(twice, 1)}. "
        f"{len(tasks)} tasks, five trials each.\n"
        f"- So {percent((twice - once) / (mixed - once))} of what the pair gains over deep alone is what a second attempt of "
        "deep gains as well."
    )


def say_beforehand(rows: Sequence[Row], read: Sequence[Row]) -> str:
    """Whether anything about the text tells where deep gains."""
    known = {row["instance"]: row for row in read}
    chosen = [row for row in rows if row["instance"] in known]
    efforts = {"<15 min fix": 0, "15 min - 1 hour": 1, "1-4 hours": 2, ">4 hours": 3}
    ways: dict[str, Callable[[Row], float]] = {
        "the length of the text": lambda row: float(row["chars"]),
        "Tandem's score": lambda row: float(row["tandem_p"]),
        "the annotators' estimate of the effort": lambda row: efforts[row["human_bucket"]],
    }
    told = []
    for name, read_score in ways.items():
        scores = [read_score(known[row["instance"]]) for row in chosen]
        found = [
            rank([(s, row[f"{fast}:ok"] == "0" and row[f"{deep}:ok"] == "1") for s, row in zip(scores, chosen, strict=True)])
            for fast, deep in PAIRS
        ]
        told.append(f"{name} {min(found):.2f} to {max(found):.2f}")
    return (
        f'AUROC for "fast fails and deep solves" over the {len(PAIRS)} pairs above, on the {len(chosen)} tasks whose text was '
        f"read: {'; '.join(told)}. Chance is 0.50. Tandem sent {sum(row['tier'] == 'deep' for row in read)} of these "
        f"{len(read)} tasks to deep: by their words they are long tasks, and on these it saves no time."
    )


def _name(pair: tuple[str, str]) -> str:
    return f"`{pair[0]}` → `{pair[1]}`"


def fill(page: str, blocks: dict[str, str]) -> str:
    """The page with its figures. Raises `KeyError` for a mark that has none."""
    return _BLOCK.sub(lambda mark: f"{mark[1]}\n{blocks[mark[2]]}\n\n{mark[3]}", page)


def main(folder: Path) -> None:
    """Write the figures into the page, draw the pictures, and print what the page states."""
    blocks, pictures = compute(folder)
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), blocks), encoding="utf-8")
    for path, picture in pictures.items():
        path.write_text(picture, encoding="utf-8")
    TABLE.write_text(write_table(read_rows(folder, VERIFIED)), encoding="utf-8")
    print("\n\n".join(f"{name}:\n{text}" for name, text in blocks.items()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
