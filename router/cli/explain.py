"""`tandem explain`."""

import argparse
import asyncio
import sys
import time
from pathlib import Path

import orjson
from msgspec.structs import replace

from router.cli import Ended
from router.cli.common import (
    add_config_argument,
    add_json_argument,
    common_dialect,
    load_in_use,
    print_json,
    whole_number_between,
)
from router.cli.past.explanation import LATELY_SECONDS, print_explanation
from router.config.load import LoadedConfig
from router.contract.errors import BadRequest, TandemError
from router.contract.exchange import Arrival
from router.contract.request import Json, JsonObject
from router.contract.words import Dialect, Operation
from router.dialects.json_body import parse_body
from router.dialects.requests import guess_dialect
from router.dialects.table import SPECS
from router.past.rehearsal import AssumedTurn, rehearse
from router.past.savings import read_worth
from router.sessions.clients import BY_NAME, NICKNAMES, UNKNOWN_CLIENT
from router.wiring.build import build_house
from router.wiring.built import Built

_MAX_CALLS = 200

EXAMPLES = (
    "explain fix the typo in the readme",
    'explain --as codex --after "fix the typo" "now migrate the whole project"',
    'explain --after "how would you split the parser? plan only" --calls 6 "yes, do it"',
    "explain --request request.json --json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument("text", nargs="*", help="what a person would type; - for standard input")
    parser.add_argument(
        "--as", dest="client", choices=sorted((*BY_NAME, *NICKNAMES)), metavar="CLIENT",
        help="as sent by "
        + ", ".join(name for name in BY_NAME if name != UNKNOWN_CLIENT.name)
    )  # fmt: skip
    parser.add_argument("--after", action="append", default=[], metavar="TEXT", help="an earlier turn; repeatable")
    parser.add_argument(
        "--calls", action="append", default=[], type=whole_number_between(0, _MAX_CALLS), metavar="N",
        help="tool calls of the turns of --after, of all or each (default: usual)",
    )  # fmt: skip
    parser.add_argument("--request", metavar="FILE", help="the JSON body of a request instead; - for standard input")
    parser.add_argument(
        "--dialect",
        choices=[str(dialect) for dialect in Dialect],
        help="its dialect (default for --request: detected)",
    )
    parser.add_argument("--header", action="append", default=[], metavar="NAME:VALUE", help="a request header; repeatable")
    add_json_argument(parser, ": the decision")


def run(arguments: argparse.Namespace) -> int:
    words = _read_words(arguments)
    if not all(text.strip() for text in arguments.after):
        raise Ended(2, "--after is empty: give the text of the earlier turn")
    if bool(words) == (arguments.request is not None) or (arguments.request and (arguments.client or arguments.after)):
        raise Ended(2, 'give a text, as in tandem explain "fix the typo", or --request FILE (without --as and --after)')
    if arguments.dialect and (arguments.client or arguments.after):
        raise Ended(2, "--dialect cannot be combined with --as or --after: these fix the dialect")
    if len(arguments.calls) not in (0, 1, len(arguments.after)) or (arguments.calls and not arguments.after):
        raise Ended(2, "--calls needs --after: give it once, or once for each --after")
    loaded = load_in_use(arguments.config, needs_keys=False)
    try:
        decision = asyncio.run(_explain(arguments, loaded, words))
    except OSError as error:
        raise Ended(2, f"{arguments.request}: {error.strerror}") from error
    except TandemError as error:
        raise Ended(1, f"refused with {error.status} {error.code}: {error.message}") from error
    if arguments.json:
        print_json(decision)
    else:
        worth = read_worth(loaded.ledger_path, time.time() - LATELY_SECONDS)
        print_explanation(decision, worth.redone_as_json() if worth is not None else None)
    return 0


async def _explain(arguments: argparse.Namespace, loaded: LoadedConfig, words: str) -> JsonObject:
    headers = _read_headers(arguments.header)
    built = build_house(loaded, with_ledger=False)
    built.learn(loaded.ledger_path)
    asked, before = await _write_arrival(arguments, loaded, built, words) if words else (_read_arrival(arguments), ())
    decision = await built.house.explain(replace(asked, headers={**asked.headers, **headers}))
    built.house.state.counter.close()
    assumed: list[Json] = [{"calls": turn.calls, "edits": turn.edits, "tier": str(turn.tier)} for turn in before]
    return {**decision, "assumed_before": assumed} if assumed else decision


def _read_words(arguments: argparse.Namespace) -> str:
    raw = sys.stdin.buffer.read() if arguments.text == ["-"] else " ".join(arguments.text).encode("utf-8", "replace")
    return raw.decode("utf-8", "replace").strip()


def _read_arrival(arguments: argparse.Namespace) -> Arrival:
    raw = sys.stdin.buffer.read() if arguments.request == "-" else Path(arguments.request).read_bytes()
    dialect = Dialect(arguments.dialect) if arguments.dialect else guess_dialect(parse_body(raw))
    return Arrival("req_dry_run", dialect, Operation.CREATE, {}, raw)


async def _write_arrival(
    arguments: argparse.Namespace, loaded: LoadedConfig, built: Built, words: str
) -> tuple[Arrival, tuple[AssumedTurn, ...]]:
    """The request, and the assumed sizes of earlier turns."""
    after, calls = arguments.after, arguments.calls
    if not arguments.client and not after:
        dialect = Dialect(arguments.dialect) if arguments.dialect else common_dialect(loaded)
        return Arrival("req_dry_run", dialect, Operation.CREATE, {}, orjson.dumps(SPECS[dialect].write_example(words))), ()
    client = NICKNAMES.get(arguments.client, arguments.client or UNKNOWN_CLIENT.name)
    return await rehearse(built.house, client, (*after, words), calls * len(after) if len(calls) == 1 else calls)


def _read_headers(given: list[str]) -> dict[str, str]:
    headers = {}
    for header in given:
        name, colon, value = header.partition(":")
        if not colon:
            raise BadRequest(f'--header "{header}": write NAME:VALUE')
        headers[name.strip().lower()] = value.strip()
    return headers
