"""Entries of a ledger, as if requests had been served."""

from router.contract.decision import Decision
from router.contract.entry import Dispatched
from router.contract.request import RequestView
from router.contract.words import Outcome
from router.house import House
from router.ledger.entries import write_entry


def keep_entry(
    house: House, view: RequestView, decision: Decision, *, outcome: Outcome, tier: str | None = None, keeps_text: bool = False
) -> None:
    """Record that one of the simulated targets served a request: the decision's own, or that of another tier."""
    house.ledger.record(
        write_entry(
            request_id=view.id,
            caller="local",
            dialect=view.dialect,
            view=view,
            decision=decision,
            record=Dispatched(outcome=outcome, status=200, target=f"simulated-{tier or decision.tier}"),
            began=0.0,
            decided=0.1,
            ended=0.2,
            targets=house.targets,
            keeps_text=keeps_text,
        )
    )
