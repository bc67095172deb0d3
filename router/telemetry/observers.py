"""Observers of requests, by the kind of fact that they want to know."""

from collections.abc import Iterable, Mapping
from typing import get_args

from router.contract.exchange import Exchange, Handler, Observer
from router.contract.facts import Fact
from router.telemetry import events


class ObserverTable:
    """All observers. Those of one kind of fact are called in the order in which they were given."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        handlers: dict[type[Fact], tuple[Handler, ...]] = dict.fromkeys(get_args(Fact), ())
        for observer in observers:
            for kind, handler in observer.handlers().items():
                handlers[kind] = (*handlers[kind], handler)
        self.handlers: Mapping[type[Fact], tuple[Handler, ...]] = handlers
        """Whom to call for each kind of fact."""

    def report(self, exchange: Exchange, error: Exception) -> None:
        """Log the defect of an observer, by its kind and place."""
        events.fault_caught(request_id=exchange.id, kind=type(error).__name__, where=events.place_of(error))
