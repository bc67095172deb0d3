"""Metrics as a config turns them on and off. While they are off nothing of them is loaded, and no request pays for them."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from router.contract.exchange import Observers
from router.telemetry.log import DefectLog

if TYPE_CHECKING:
    from router.telemetry.metrics import Metrics


class MetricsSwitch:
    """Counts requests while metrics are on. A reload keeps what was counted, unless it turns them off."""

    def __init__(self, observers: Observers) -> None:
        self._observers = observers
        self.metrics: Metrics | None = None
        """None while they are off."""

    def follow(self, targets: Collection[str], *, on: bool, callers: bool) -> None:
        """Take what a config says: its targets, whether requests are counted, and whether for each caller."""
        if on and self.metrics is None:
            from router.telemetry.metrics import Metrics  # where metrics are off, nothing needs it

            self.metrics = Metrics(DefectLog().report_by_id)
            self._observers.add(self.metrics)
        elif not on and self.metrics is not None:
            self._observers.remove(self.metrics)
            self.metrics = None
        if self.metrics is not None:
            self.metrics.follow(targets, callers=callers)
