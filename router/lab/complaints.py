"""How well complaints about a turn are distinguished from everything else that people say after one."""

from collections.abc import Sequence
from dataclasses import dataclass

from router.contract.words import SAID_WRONG
from router.house import House
from router.lab.items import Item, Remark, arrival_of


@dataclass(frozen=True, slots=True)
class Heard:
    """How many of the complaints were heard, and how many of the other remarks were taken for one."""

    bad: int
    fine: int
    caught: int
    alarms: int

    @property
    def catch(self) -> float | None:
        return self.caught / self.bad if self.bad else None

    @property
    def false_alarm(self) -> float | None:
        return self.alarms / self.fine if self.fine else None


def count_heard(remarks: Sequence[Remark], are_heard: Sequence[bool]) -> Heard:
    """Sum up which remarks were heard as complaints."""
    pairs = list(zip(remarks, are_heard, strict=True))
    bad = sum(remark.is_complaint for remark in remarks)
    caught = sum(is_heard and remark.is_complaint for remark, is_heard in pairs)
    alarms = sum(is_heard and not remark.is_complaint for remark, is_heard in pairs)
    return Heard(bad, len(remarks) - bad, caught, alarms)


async def is_heard(house: House, remark: Remark) -> bool:
    """Whether the road hears a complaint in a remark that follows a short turn, which fast would have served."""
    said = Item("", "", remark.says, is_long=False, is_clear=True, prior_turns=1, calls=(1,), edits=(1,), previous=remark.asked)
    decision = (await house.decide(arrival_of(said))).decision
    return any(lean.because.startswith(SAID_WRONG) for _, lean in decision.opinions.leans)
