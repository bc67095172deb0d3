"""Where a config and the engine of a target differ, and what a small window means: for `doctor` and `check`. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from router.cli.setup.engines import Engine, serves_at_once
from router.config.targets import TargetPlan
from router.contract.room import reserve_tokens

_AGENT_TOKENS = 16_000
"""A prompt with less room than this is too small for coding agents: Codex's first one has 10,000 to 14,000 tokens."""


class Remark(NamedTuple):
    """What is worth saying of a target, and what to do about it."""

    text: str
    hint: str
    is_wrong: bool = False


def compare(plan: TargetPlan, engine: Engine) -> list[Remark]:
    """Where the config says more than the engine has."""
    target, found = plan.target, []
    true = engine.window_of(plan.endpoint.model)
    if true is not None and target.window_tokens > true:
        text = f"its window_tokens is {target.window_tokens:,}, but its engine's window is {true:,} tokens"
        found.append(Remark(text, f"set window_tokens: {true}, or start the engine with a larger window", is_wrong=True))
    allowed = target.quota.in_flight if target.quota is not None else None
    if engine.slots is not None and (allowed is None or allowed > engine.slots):
        text = (
            f"its engine {serves_at_once(engine.slots)}, and the config {f'allows {allowed}' if allowed else 'sets no limit'}"
        )
        found.append(Remark(text, f"set quota.in_flight: {engine.slots}, so that other requests go elsewhere or queue fairly"))
    return found


def describe(plan: TargetPlan, engine: Engine) -> list[str]:
    """What an engine says of itself, for the line of a target that is in order."""
    told = []
    if (window := engine.window_of(plan.endpoint.model)) is not None:
        told.append(f"window of {window:,} tokens")
    if engine.slots is not None:
        told.append(serves_at_once(engine.slots))
    return told


def find_small_windows(plans: Sequence[TargetPlan]) -> Remark | None:
    """The models that are too small for coding agents, and who serves those instead."""
    models = [plan for plan in plans if plan.is_model]
    small = [plan for plan in models if room_for_prompt(plan.target.window_tokens) < _AGENT_TOKENS]
    if not small:
        return None
    named = ", ".join(f"{plan.target.name} ({plan.target.window_tokens:,} tokens)" for plan in small)
    others = [plan.target.name for plan in models if plan not in small]
    instead = f"only {', '.join(others)} can serve them" if others else "no target here can serve them"
    text = (
        f"window too small for coding agents: {named}. Claude Code and Codex send 10,000 tokens or more of "
        f"instructions and tools with every request; {instead}"
    )
    hint = (
        "start the engine with a larger window (llama-server --ctx-size 65536, OLLAMA_CONTEXT_LENGTH=65536 ollama serve), "
        "and set window_tokens"
    )
    return Remark(text, hint)


def room_for_prompt(window_tokens: int) -> int:
    """What a window holds next to the room that is kept free for an answer."""
    return window_tokens - reserve_tokens(window_tokens)
