"""`tandem serve`."""

import argparse
import sys
import time

from router.cli.common import (
    Reading,
    add_config_argument,
    add_ledger_switch,
    load_or_end,
    whole_number_between,
)
from router.cli.routers import url_of
from router.cli.serving import Order, Serving, explained, open_turn_log, refuse_unrecorded
from router.config.load import find_config
from router.edge.server import open_listener
from router.telemetry import events

EXAMPLES = ("serve", "serve --port 4001 --log json", "serve --config work.yaml --no-ledger")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser, running="")
    parser.add_argument("--host", help="default: server.host")
    parser.add_argument("--port", type=whole_number_between(0, 65_535), help="0 for a free one (default: server.port)")
    parser.add_argument(
        "--log",
        choices=("text", "json"),
        help="a line for each turn, or all of it for programs (default: text on a terminal, else json)",
    )
    add_ledger_switch(parser)


def run(arguments: argparse.Namespace) -> int:
    began = time.perf_counter()
    loaded, path = load_or_end(arguments.config), find_config(arguments.config)
    server = loaded.config.server
    order = Order(
        Reading(path.absolute() if path is not None else None, arguments.config),
        arguments.host or server.host,
        server.port if arguments.port is None else arguments.port,
        with_ledger=arguments.ledger == "on",
        began=began,
    )
    is_text = arguments.log == "text" or (arguments.log is None and sys.stderr.isatty())
    log = open_turn_log() if is_text else None
    events.set_up_logging(log.note if log is not None else None, log.reject if log is not None else None)
    refuse_unrecorded(loaded, with_ledger=order.with_ledger)
    url = url_of(order.host, order.port, is_tls=server.tls is not None)
    with explained(url), open_listener(order.host, order.port, needs_keys=loaded.keys is not None) as listener:
        return Serving(order, loaded, listener, log).run()
