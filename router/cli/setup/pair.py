"""What `tandem check` and `tandem init` say of the two tiers' models: how they did on a public board, and what fast is told."""

import re
from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec import Struct

from router.cli.figures import money
from router.cli.setup.findings import GOOD, NOTE, Finding
from router.config.load import LoadedConfig
from router.config.target_settings import find_instructions
from router.config.targets import TargetPlan
from router.contract.combine import Combine, LookTell, LookWhen
from router.contract.words import Tier

_ENOUGH = 2 / 3
"""The share of deep's score from which fast first usually pays, by the page *Time and quality*."""
_TOKENS_A_CALL, _TOOL_SECONDS = 300, 2.0
"""As that page assumes them."""
_VERSIONS = re.compile(r"[:@].*|-(?:20\d{6}|20\d\d-\d\d-\d\d|latest|preview)(?=$|-|:|@)")


class Shown(Struct, frozen=True):
    """A model on the board."""

    solved: float
    """The share of the tasks."""
    calls: float
    """For each task."""


class Board(Struct, frozen=True):
    name: str
    source: str
    worked_out: str
    """The day on which the figures were worked out from the source."""
    models: dict[str, Shown]


@lru_cache(maxsize=1)
def read_board() -> Board:
    return msgspec.yaml.decode(Path(__file__).with_name("outcomes.yaml").read_bytes(), type=Board)


def find_shown(model: str, board: Board) -> Shown | None:
    """A model by its provider's name for it, without dates. A name that only looks alike is another model."""
    name = model.rpartition("/")[2].lower().removeprefix("anthropic.")
    return board.models.get(_VERSIONS.sub("", name).replace(".", "-"))


def look_at_pair(loaded: LoadedConfig) -> list[Finding]:
    """What the first targets of both tiers did on the public board; nothing where one is not on it."""
    first = {tier: next(plan for plan in loaded.targets if plan.target.tier is tier) for tier in Tier}
    fast, deep = first[Tier.FAST], first[Tier.DEEP]
    board = read_board()
    on_fast, on_deep = (find_shown(plan.endpoint.model, board) if plan.is_model else None for plan in (fast, deep))
    if on_fast is None or on_deep is None:
        return []
    share = on_fast.solved / on_deep.solved
    words = []
    if share >= 1:
        words.append("deep is not better than fast on the public board: one tier may be enough")
    elif share < _ENOUGH:
        words.append(f"fast has {share:.2f} of deep's score on the public board: expect redos")
    if (fast_seconds := _seconds(fast, on_fast)) > (deep_seconds := _seconds(deep, on_deep)):
        words.append(f"fast is the slower one: about {fast_seconds:.0f} s for a task there, and deep {deep_seconds:.0f} s")
    hint = (
        f"{fast.endpoint.model} solved {on_fast.solved:.1%} in {on_fast.calls:.0f} calls a task, {deep.endpoint.model} "
        f"{on_deep.solved:.1%} in {on_deep.calls:.0f}: {board.name}, worked out {board.worked_out}. Your work may differ"
    )
    figures: dict[str, float] = {"score_ratio": round(share, 3), "calls_ratio": round(on_fast.calls / on_deep.calls, 3)}
    figures |= {"fast_seconds": round(fast_seconds, 1), "deep_seconds": round(deep_seconds, 1)}
    return [Finding("pair", NOTE, text, hint, figures={**figures}) for text in words]


def _seconds(plan: TargetPlan, shown: Shown) -> float:
    """Modelled: the board tells calls, and the config how fast a target usually is."""
    speed = plan.target.typical
    return shown.calls * (speed.ttft_seconds + _TOOL_SECONDS + _TOKENS_A_CALL / speed.tokens_per_second)


def describe_tiers(loaded: LoadedConfig) -> list[Finding]:
    """What both tiers do for one task, and the text that each tier's models are given, with that of a preset."""
    found = [Finding("combine", GOOD, _say_combine(loaded.combine))] if loaded.combine.is_on else []
    for tier, block in loaded.config.tiers:
        if given := block.instructions:
            text = " ".join(find_instructions(given).split())
            found.append(Finding(tier, GOOD, f"instructions: {text if text == given else f'{given}: {text}'}"))
    return found


def _say_combine(combine: Combine) -> str:
    look, parts = combine.look, ["plan: deep plans, and fast edits"] if combine.plan else []
    if look.when is not LookWhen.OFF:
        told = f"its end waits for at most {look.max_seconds:g} s" if look.tell is LookTell.ANSWER else "told later, as a job"
        spent = f"{money(look.daily_usd)} a day at most"
        parts.append(f"look ({look.when}): deep receives the ask and edits of turns that fast ended; {told}; {spent}")
    return "; ".join(parts)
