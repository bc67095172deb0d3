"""A request that does not fit a target's context window cannot go there."""

from operator import attrgetter
from typing import ClassVar

from pydantic import Field

from router.contract.opinions import Opinion, PolicyConfig, RuleOut
from router.contract.request import RequestView
from router.contract.signals import RESERVE_TOKENS, Signals, reserve_tokens
from router.contract.target import TargetStatus
from router.dialects.table import SPECS

_window_of = attrgetter("target.window_tokens")


class WindowConfig(PolicyConfig):
    """Keep requests out of a target whose context window they overflow."""

    output_reserve_tokens: int = Field(default=RESERVE_TOKENS, ge=0, le=400_000)
    """Most room kept free for the answer."""


class WindowPolicy:
    """Rules out targets whose window is too small."""

    name: ClassVar[str] = "window"
    Config: ClassVar[type[PolicyConfig]] = WindowConfig

    def __init__(self, config: WindowConfig) -> None:
        self._most = config.output_reserve_tokens

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        prompt = signals.prompt.tokens
        most = prompt + self._most
        statuses = signals.statuses.values()
        if most <= min(map(_window_of, statuses), default=most):  # few prompts are near even the smallest window
            return ()
        opinions: list[Opinion] = []
        for status in statuses:
            window = status.target.window_tokens
            if most > window:
                reserve = reserve_tokens(window, SPECS[request.dialect].read_limit(request.body), self._most)
                if prompt + reserve > window:
                    opinions.append(_too_small(status, prompt, reserve))
        return tuple(opinions)


def _too_small(status: TargetStatus, prompt: int, reserve: int) -> RuleOut:
    name, window = status.target.name, status.target.window_tokens
    room = f" plus {reserve} for the answer" if reserve else ""
    because = f"a prompt of {prompt} tokens{room} is over its window of {window}"
    needed = prompt + reserve
    # A window that a target once named may be outdated or misread: now and then a request tests it.
    yields = needed <= status.window_to_try
    return RuleOut(name, because, lasting=True, tokens=(needed, window), yields=yields, reserved_tokens=reserve)
