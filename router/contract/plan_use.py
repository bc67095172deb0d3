"""The windows of a plan: how much of each is used, what using more is worth, and what people are told. Pure.

A plan pays a fixed price for an amount of work in five hours and in a week. Times are seconds since 1970, as vendors give them.
"""

import time
from typing import Annotated, NamedTuple

from msgspec import Struct
from pydantic import Field

from router.contract.block import Block

FIVE_HOURS, WEEK = 18_000.0, 604_800.0
"""Seconds of the two windows that plans have."""
_LONG = 86_400.0 * 2
"""Windows from this length on are counted as the week."""
_DAY = 86_400.0
Percent = Annotated[float, Field(gt=0, le=100)]


class UseUpTo(Block, frozen=True):
    """How much of each window of a plan may be used while another target can serve, in per cent."""

    five_hours: Percent = 100.0
    """Of the five hours."""
    week: Percent = 100.0
    """Of the week."""


class PlanWindow(Struct, frozen=True):
    """A window as its vendor last reported it."""

    used: float
    """The share that is used: 1 is all of it."""
    resets_at: float
    seconds: float = FIVE_HOURS
    """Its whole length."""
    of: str = ""
    """The models that alone count in it, such as "Opus"; empty for all."""

    @property
    def is_week(self) -> bool:
        return self.seconds >= _LONG

    @property
    def name(self) -> str:
        """`5-hour window`, `weekly window`, `weekly Opus window`."""
        length = "weekly" if self.is_week else f"{self.seconds / 3600:g}-hour"
        return " ".join(part for part in (length, self.of, "window") if part)

    def ahead(self, now: float) -> float:
        """How far its use is ahead of the clock, as a share of what is left of its time: 0 (not ahead) to 1 (used up)."""
        elapsed = 1 - min(max(self.resets_at - now, 0.0), self.seconds) / self.seconds
        return min(max((self.used - elapsed) / (1 - elapsed), 0.0), 1.0) if elapsed < 1 else 0.0


class UsedUp(NamedTuple):
    """A refusal of a plan that names its time."""

    until: float
    window: str = ""
    """The window that is used up; empty if the vendor did not say."""

    @property
    def words(self) -> str:
        """Without a full stop, for the plan's own person."""
        limit = f"{self.window} is used up" if self.window else "limit is reached"
        return f"your plan's {limit} until {say_moment(self.until)}"


def say_moment(at: float, now: float | None = None) -> str:
    """Local time: `18:08`, and beyond a day `Thu 18:08`."""
    moment = time.localtime(at + 30)  # to the nearest minute
    far = at - (time.time() if now is None else now) >= _DAY
    return time.strftime("%a %H:%M" if far else "%H:%M", moment)


def shadow_share(windows: tuple[PlanWindow, ...], now: float) -> float:
    """The share of the list price that a plan's tokens cost in a decision, by the window furthest ahead of the clock."""
    return round(max([window.ahead(now) for window in windows if window.resets_at > now], default=0.0), 2)


def held_back(windows: tuple[PlanWindow, ...], limits: UseUpTo, now: float) -> PlanWindow | None:
    """A window that is used as far as `use_up_to` allows, the one that resets last; None if there is none."""
    full = [
        window
        for window in windows
        if window.resets_at > now and window.used * 100 >= (limits.week if window.is_week else limits.five_hours) < 100
    ]
    return max(full, key=lambda window: window.resets_at, default=None)


def say_held_back(window: PlanWindow) -> str:
    return f"{int(window.used * 100)} % of your plan's {window.name} is used (use_up_to) until {say_moment(window.resets_at)}"
