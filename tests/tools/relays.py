"""A relay on its own, as an attempt would make it."""

import asyncio
import time

from router.contract.facts import AttemptOpened
from router.contract.target import Timeouts
from router.contract.words import Dialect
from router.dispatch.order import Order
from router.dispatch.relay import HEARTBEAT_SECONDS, Relay
from tests.tools.exchanges import make_decision, make_exchange
from tests.tools.scripted import reach
from tests.tools.values import make_target, make_view

PATIENT = Timeouts(connect_seconds=5, first_byte_seconds=600, stall_seconds=300)


def make_relay(
    caller,
    *observers,
    view=None,
    translator=None,
    max_bytes: int = 1 << 20,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
    timeouts: Timeouts = PATIENT,
    key: str = "",
) -> Relay:
    view = view or make_view({"messages": [{"role": "user", "content": "hi"}], "stream": True}, Dialect.CHAT)
    exchange, target = make_exchange(*observers, name=view.id), make_target(timeouts=timeouts)
    order = Order(exchange, make_decision(), caller, max_bytes, time.perf_counter)
    opened, finished = AttemptOpened(0.0, target, "", ()), asyncio.get_running_loop().create_future()
    return Relay(order, opened, view, reach(target, key=key), caller, translator, finished, heartbeat_seconds)
