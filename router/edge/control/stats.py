"""The live picture: how each target does now, and what is used of its quota."""

from router.dispatch.live.picture import draw
from router.edge.control.panel import Answer, Asked, Page, as_json
from router.house import House


class Stats:
    """Shows the live figures of the current plan's targets."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.pages = (Page("/tandem/stats", self._show),)

    async def _show(self, _: Asked) -> Answer:
        house, live = self._house, self._house.state.live
        targets, now = house.plan.targets, house.clock()
        return as_json({"targets": draw(live, targets, now), "quotas": live.queues.picture(targets, now)})
