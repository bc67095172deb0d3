"""`tandem explain`."""

import argparse
import asyncio
import sys
from pathlib import Path

import orjson

from router.cli.common import add_config_argument, common_dialect, complain, example_body, load_or_report
from router.config.load import LoadedConfig
from router.contract.errors import BadRequest, TandemError
from router.contract.request import Json, JsonObject
from router.contract.words import Dialect, Operation
from router.dialects.json_body import parse_body
from router.dialects.requests import Arrival, guess_dialect
from router.wiring import build_house


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_config_argument(parser)
    parser.add_argument("text", nargs="?", help="what a person would type")
    parser.add_argument("--file", metavar="REQUEST.json", help="the body of a whole request instead (- for standard input)")
    parser.add_argument("--dialect", choices=[str(dialect) for dialect in Dialect], help="of the file (default: by its fields)")
    parser.add_argument("--header", action="append", default=[], metavar="NAME:VALUE", help="a request header; may be repeated")
    parser.add_argument("--json", action="store_true", help="print the decision as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Decide and print, for a person or for a program."""
    if (arguments.text is None) == (arguments.file is None) or (arguments.text is not None and not arguments.text.strip()):
        complain('give a text, as in tandem explain "fix the typo", or --file REQUEST.json')
        return 2
    loaded = load_or_report(arguments.config)
    if loaded is None:
        return 2
    try:
        raw, dialect = _read_body(arguments, loaded)
        headers = _read_headers(arguments.header)
        built = build_house(loaded, with_ledger=False)
        decision = asyncio.run(built.house.explain(Arrival("req_dry_run", dialect, Operation.CREATE, headers, raw)))
        built.counter.close()
    except OSError as error:
        complain(f"{arguments.file}: {error.strerror}")
        return 2
    except TandemError as error:
        complain(f"refused with {error.status} {error.code}: {error.message}")
        return 1
    print(orjson.dumps(decision, option=orjson.OPT_INDENT_2).decode() if arguments.json else _readable(decision))
    return 0


def _read_body(arguments: argparse.Namespace, loaded: LoadedConfig) -> tuple[bytes, Dialect]:
    asked = Dialect(arguments.dialect) if arguments.dialect else None
    if arguments.file:
        raw = sys.stdin.buffer.read() if arguments.file == "-" else Path(arguments.file).read_bytes()
        return raw, asked or guess_dialect(parse_body(raw))
    dialect = asked or common_dialect(loaded)
    words = arguments.text.encode("utf-8", "replace").decode()
    return orjson.dumps(example_body(dialect, words)), dialect


def _read_headers(given: list[str]) -> dict[str, str]:
    headers = {}
    for header in given:
        name, colon, value = header.partition(":")
        if not colon:
            raise BadRequest(f'--header "{header}": write NAME:VALUE')
        headers[name.strip().lower()] = value.strip()
    return headers


def _readable(decision: JsonObject) -> str:
    lines = [f"{decision['tier']}  {decision['because']}", ""]
    lines.append(f"turn        {decision['turn_kind']}, session {decision['session']}, client {decision['client']}")
    exact = "counted" if decision["prompt_tokens_exact"] else "estimated"
    lines.append(f"prompt      {decision['prompt_tokens']} tokens ({exact})")
    lines.append(f"long task   {_number(decision['score']):.0%}")
    lines.append("evidence")
    lines += [f"  {_evidence(item)}" for item in _list(decision["evidence"])] or ["  none"]
    lines.append("estimates")
    for tier, estimate in _object(decision["estimates"]).items():
        lines.append(f"  {tier:<5} {_estimate(_object(estimate))}")
    flip = _object(decision["flip"])
    lines.append(f"would flip  {_flip(flip, str(decision['decided_by']))}")
    for target, lost in _object(decision["drops"]).items():
        lines.append(f"drops       {', '.join(map(str, _list(lost)))} ({target})")
    for skipped in _list(decision["skipped"]):
        lines.append(f"skipped     {_object(skipped)['policy']}: {_object(skipped)['reason']}")
    return "\n".join(lines)


def _evidence(item: Json) -> str:
    entry = _object(item)
    share = f"{_number(entry['log_odds']):+.2f}" if entry.get("log_odds") is not None else str(entry["kind"])
    target = f" ({entry['target']})" if entry.get("target") else ""
    return f"{share:<9} {entry['policy']}: {entry['because']}{target}"


def _estimate(estimate: JsonObject) -> str:
    redo = _number(estimate["redo_seconds"])
    again = f", {redo:.1f} s of it for doing it again" if redo else ""
    money = estimate["money_usd"]
    price = "price unknown" if money is None else f"{_number(money):.4f} USD"
    return f"{_number(estimate['seconds']):.1f} s{again}, {price} ({estimate['target']})"


def _flip(flip: JsonObject, decided_by: str) -> str:
    if decided_by == "rule_out":
        return "by nothing: no other tier can serve this"
    parts = []
    if flip.get("score") is not None:
        parts.append(f"at {_number(flip['score']):.0%} long task")
    if flip.get("fast_wait_seconds") is not None:
        parts.append(f"with {_number(flip['fast_wait_seconds']):.1f} s of waiting on fast")
    return " or ".join(parts) or "by nothing but another wish"


def _number(value: Json) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
