"""Observers of requests, by the kind of fact that they want to know."""

from collections.abc import Iterable, Mapping

from router.contract.exchange import Exchange, Handler, Observer
from router.contract.facts import Fact
from router.telemetry import events


class ObserverTable:
    """All observers. Those of one kind of fact are called in the order in which they were given."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._handlers: dict[type[Fact], tuple[Handler, ...]] = {}
        for observer in observers:
            for kind, handler in observer.handlers().items():
                self._handlers[kind] = (*self._handlers.get(kind, ()), handler)

    @property
    def handlers(self) -> Mapping[type[Fact], tuple[Handler, ...]]:
        """Whom to call for each kind of fact."""
        return self._handlers

    def report(self, exchange: Exchange, error: Exception) -> None:
        """Log the defect of an observer, by its kind and place."""
        events.fault_caught(request_id=exchange.id, kind=type(error).__name__, where=events.place_of(error))
