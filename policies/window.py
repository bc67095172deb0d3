"""A request that does not fit a target's context window cannot go there."""

from typing import ClassVar

from pydantic import Field

from router.contract.opinions import Opinion, PolicyConfig, RuleOut
from router.contract.request import RequestView
from router.contract.signals import Signals


class WindowConfig(PolicyConfig):
    """Keep requests out of a target whose context window they overflow."""

    output_reserve_tokens: int = Field(default=8_000, ge=0, le=400_000)
    """Room kept free for the answer. A prompt that leaves less than this rules the target out."""


class WindowPolicy:
    """Compares the prompt, plus room for the answer, with each target's window."""

    name: ClassVar[str] = "window"
    Config: ClassVar[type[PolicyConfig]] = WindowConfig

    def __init__(self, config: WindowConfig) -> None:
        self._reserve = config.output_reserve_tokens

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        """Rule out each target that is too small, with both numbers."""
        needed = signals.prompt.tokens + self._reserve
        opinions: list[Opinion] = []
        for status in signals.statuses.values():
            window = status.target.window_tokens
            if needed > window:
                because = f"prompt plus room for the answer is {needed} tokens, over its window of {window}"
                opinions.append(RuleOut(status.target.name, because, lasting=True, tokens=(needed, window)))
        return tuple(opinions)
