"""The figures of what routers share: how the server answers, and how often something was done without it."""

from typing import TYPE_CHECKING

from router.stores.shared import Shared

if TYPE_CHECKING:
    from router.telemetry.metrics import Samples

_VALKEY = ("valkey",)


def read_shared(shared: Shared) -> "dict[str, Samples]":
    """The figures of what is shared. Each router counts what it did itself."""
    return {**_read_valkey(shared), **_read_copy(shared)}


def _read_valkey(shared: Shared) -> "dict[str, Samples]":
    link, pulse = shared.link, shared.pulse
    if link is None or pulse is None:
        return {}
    return {
        "tandem_routers": {(): shared.replicas},
        "tandem_store_up": {_VALKEY: int(link.is_up and link.refusals.look() is None)},
        "tandem_store_trips_total": {_VALKEY: link.trips},
        "tandem_store_seconds_total": {_VALKEY: link.seconds},
        "tandem_store_losses_total": {_VALKEY: link.losses},
        "tandem_store_blind_total": {(kind,): count for kind, count in link.blind.items()},
        "tandem_store_unconfirmed_total": {(kind,): count for kind, count in link.unconfirmed.items()},
        "tandem_pulse_ignored_total": {(reason,): count for reason, count in pulse.ignored.items()},
    }


def _read_copy(shared: Shared) -> "dict[str, Samples]":
    return {"tandem_ledger_lag_seconds": {(): shared.forwarder.lag_seconds}} if shared.forwarder is not None else {}
