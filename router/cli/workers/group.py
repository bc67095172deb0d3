"""Sets up what a group of workers needs, and removes it after the last has ended."""

import gc
import secrets
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from msgspec.structs import replace as replace_struct

from router.cli import Ended
from router.cli.common import say
from router.cli.refused import say_away
from router.cli.routers import leave_router, note_reload, note_router, record_of, url_of
from router.cli.serving import Order, Serving, explained, facts_of, open_screen, warn_of_expiry, welcome
from router.cli.workers.own_valkey import PROGRAMS, CannotStart, OwnValkey, find_program
from router.cli.workers.parent import Parent
from router.cli.workers.parent_link import ParentLink
from router.config.across import check_recorded
from router.config.load import LoadedConfig
from router.config.outside import name_replica
from router.contract.keys import OWN_ID, make_key
from router.contract.secret import Secret
from router.contract.shared import SharedTerms, ValkeyTerms
from router.edge.server import open_listeners
from router.screen.seen import Watch
from router.stores.shared import say_missing
from router.telemetry import events
from router.wiring.build import check_prices
from router.wiring.stores import hold_files

if TYPE_CHECKING:
    import socket

    from router.cli.workers.screen_process import ScreenProcess


def serve_group(order: Order, loaded: LoadedConfig) -> int:
    """Raises `Ended`, `CannotListen` and `StoreUnusable`."""
    program = find_server(loaded)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # until the parent handles it: unwind what was started
    with ExitStack() as stack:
        screen = _open_screen(order, stack) if order.has_screen else None
        listeners = open_listeners(order.host, order.port, order.count, needs_keys=loaded.keys is not None)
        for listener in listeners:
            stack.callback(listener.close)
        url = url_of(*listeners[0].getsockname()[:2], is_tls=loaded.tls_paths is not None)
        away = hold_files(loaded, url, stack) if order.with_ledger else []
        missing = [say_away(error.path, error.reason) for error in away]
        valkey = _start_valkey(program, stack) if program is not None else None
        name_replica()  # once, for this process and its workers
        has_key = order.with_ledger and (not away or _has_key_file(loaded))
        own_key, secret = make_key(OWN_ID), Secret(secrets.token_urlsafe(32)) if not has_key else None
        key = own_key.text if loaded.keys is not None else ""
        record = record_of(loaded, order.reading.path, url, key, has_ledger=order.with_ledger, workers=order.count)
        stack.callback(leave_router, record)

        def work(parent: ParentLink, listener: "socket.socket", taken: LoadedConfig) -> int:
            def join(one: LoadedConfig) -> LoadedConfig:
                return replace(one, shared=_join_terms(one.shared, parent.number, valkey, secret))

            if screen is not None:
                parent.watch = Watch(shows_words=order.shows_words, shows_estimates=order.shows_each_call)
                events.set_up_logging(as_json=False, note=parent.watch.note, refused=parent.watch.reject)
            events.name_worker(parent.number)
            own = replace_struct(order, reading=order.reading._replace(adapt=join), began=time.perf_counter())
            with explained(""):
                return Serving(own, join(taken), listener, parent=parent).run()

        def announce() -> None:
            note_router(record)
            if screen is not None:
                screen.open(facts_of(order, loaded, url))
            warnings = [*loaded.warnings, *missing, *warn_of_expiry(loaded)]
            if len(listeners) == 1:
                warnings.append("all workers share one socket, so some may get more connections than others")
            _announce(order, loaded, url, warnings)

        def check(taken: LoadedConfig) -> None:
            check_prices(taken)
            check_recorded(taken.keys, taken.source, with_ledger=order.with_ledger)

        gc.collect()
        gc.freeze()  # keeps loaded objects in pages that workers share
        take = partial(note_reload, record)
        parts = (listeners, loaded, order.reading.load, work, own_key, announce, take, valkey, check, screen)
        code = Parent(order.count, *parts).run()
    events.server_stopped()
    return code


def _open_screen(order: Order, stack: ExitStack) -> "ScreenProcess":
    from router.cli.workers.screen_process import ScreenProcess  # only for terminals

    screen = ScreenProcess(partial(open_screen, order))
    stack.callback(screen.close)
    events.set_up_logging(as_json=False, note=screen.note, refused=screen.reject)
    return screen


def find_server(loaded: LoadedConfig) -> str | None:
    """None if the config names a server. Raises `Ended` without either."""
    if find_spec("hiredis") is None:
        raise Ended(2, say_missing("several workers need", "hiredis"))
    if loaded.shared is not None and loaded.shared.valkey is not None:
        return None
    if (program := find_program()) is None:
        names = " nor ".join(PROGRAMS)
        problem = f"several workers share sessions and limits through a Valkey server, and neither {names} is installed"
        raise Ended(2, f"{problem}\n  hint: install valkey-server, or set shared.valkey.url, or use one worker")
    return program


def _start_valkey(program: str, stack: ExitStack) -> OwnValkey:
    try:
        stack.callback((valkey := OwnValkey(program)).stop)
        valkey.start()
    except (CannotStart, OSError) as error:
        raise Ended(2, f"{error}\n  hint: set shared.valkey.url, or use one worker") from error
    return valkey


def _has_key_file(loaded: LoadedConfig) -> bool:
    """Whether workers can read a common key, though other files are away."""
    path = loaded.ledger_path
    return path is not None and path.with_name(f"{path.name}.key").is_file()


def _join_terms(terms: SharedTerms | None, number: int, valkey: OwnValkey | None, secret: Secret | None) -> SharedTerms:
    """Without a common key file, workers need a secret."""
    terms = terms or SharedTerms(name_replica())
    own = ValkeyTerms(Secret(valkey.url)) if valkey is not None else None
    return replace_struct(
        terms,
        replica=f"{terms.replica}.{number}",
        worker=number,
        valkey=terms.valkey or own,
        secret=terms.secret or secret,
    )


def _announce(order: Order, loaded: LoadedConfig, url: str, warnings: list[str]) -> None:
    events.server_started(
        url=url,
        config=loaded.source,
        targets=len(loaded.targets),
        simulated=loaded.is_simulated,
        took_ms=(time.perf_counter() - order.began) * 1000,
        workers=order.count,
    )
    for warning in warnings:
        events.config_warned(warning=warning)
    if not order.as_json and not order.has_screen:
        say(f"{order.count} workers serve.\n{welcome(loaded, url)}")
