"""`tandem stores`: how the stores are that several routers share, and their migration apart from serving."""

import argparse
import time
from typing import TYPE_CHECKING, NamedTuple

from router.cli import Ended
from router.cli.common import add_config_argument, command_name, load_or_end, print_json
from router.config.load import LoadedConfig
from router.contract.request import JsonObject
from router.contract.shared import PostgresTerms, ValkeyTerms
from router.contract.stores import StoreUnusable
from router.screen.figures import day_and_clock, duration, plural
from router.stores.shared import INSTALL
from router.stores.sqlite.forwarded import Waiting, look_at_waiting
from router.telemetry import events

if TYPE_CHECKING:
    from router.stores.postgres.look import PostgresLook
    from router.stores.valkey.look import ValkeyLook

EXAMPLES = ("stores", "stores --json", "stores migrate", "stores migrate --config work.yaml")
_CLOCK_SECONDS = 5.0
_WIDTH = 10


class Problem(NamedTuple):
    """Why a store cannot be used."""

    problem: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    actions = "show how the stores are (default), or migrate: bring the tables of shared.postgres to this release's version"
    parser.add_argument("action", nargs="?", choices=("show", "migrate"), default="show", help=actions)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked. Exit code 1: a store cannot be used, or needs a migration."""
    loaded = load_or_end(arguments.config)
    if loaded.shared is None:
        problem = f"{loaded.source} names no store that routers share (workers share one that tandem serve starts for them)"
        raise Ended(2, f"{problem}\n  hint: set shared.valkey or shared.postgres in the config")
    if arguments.action == "migrate":
        return _migrate(loaded.shared_postgres, as_json=arguments.json)
    events.set_up_logging(as_json=False, note=lambda line: None)  # what a look finds is printed below
    valkey, postgres = _look_at_valkey(loaded.shared.valkey), _look_at_postgres(loaded.shared_postgres)
    ledger, now = _look_at_ledger(loaded), time.time()
    if arguments.json:
        found = {"valkey": _valkey_json(valkey), "postgres": _postgres_json(postgres), "ledger": _ledger_json(ledger, now)}
        print_json({"replica": loaded.shared.replica, **found, "not_shared": loaded.unshared})
    else:
        for name, lines in (
            ("valkey", _valkey_lines(valkey)),
            ("postgres", _postgres_lines(postgres)),
            ("ledger", _ledger_lines(ledger, now)),
            ("not shared", loaded.unshared),
        ):
            for index, line in enumerate(lines):
                print(f"{'' if index else name:<{_WIDTH}}  {line}")
    needs_migration = not isinstance(postgres, Problem) and postgres is not None and bool(postgres.schema.pending)
    return 1 if needs_migration or any(isinstance(store, Problem) for store in (valkey, postgres, ledger)) else 0


def _migrate(terms: PostgresTerms | None, *, as_json: bool) -> int:
    if terms is None:
        raise Ended(2, "there is nothing to migrate: shared.postgres is not set")
    try:
        from router.stores.postgres.look import migrate  # the extra `shared` brings asyncpg

        done = migrate(terms)
    except ModuleNotFoundError as error:
        raise Ended(1, _say_missing("postgres", error)) from error
    except StoreUnusable as error:
        raise Ended(1, f"shared.postgres: {error}") from error
    if as_json:
        print_json({"before": list(done.applied), "applied": list(done.pending)})
    elif done.pending:
        print(f"shared.postgres: applied {_say_numbers(done.pending)}")
    else:
        print("shared.postgres: nothing to do, the tables are up to date")
    return 0


def _look_at_valkey(terms: ValkeyTerms | None) -> "ValkeyLook | Problem | None":
    try:
        from router.stores.valkey.look import look_at_valkey  # the extra `shared` brings hiredis

        return look_at_valkey(terms) if terms is not None else None
    except ModuleNotFoundError as error:
        return Problem(_say_missing("valkey", error)) if terms is not None else None
    except StoreUnusable as error:
        return Problem(str(error))


def _look_at_postgres(terms: PostgresTerms | None) -> "PostgresLook | Problem | None":
    try:
        from router.stores.postgres.look import look_at_postgres  # the extra `shared` brings asyncpg

        return look_at_postgres(terms) if terms is not None else None
    except ModuleNotFoundError as error:
        return Problem(_say_missing("postgres", error)) if terms is not None else None
    except StoreUnusable as error:
        return Problem(str(error))


def _look_at_ledger(loaded: LoadedConfig) -> Waiting | Problem | None:
    """What this machine's ledger has still to copy; None where nothing is copied."""
    path = loaded.ledger_path
    if loaded.shared_postgres is None or path is None or not path.is_file():
        return None
    try:
        return look_at_waiting(path)
    except StoreUnusable as error:
        return Problem(str(error))


def _say_missing(store: str, error: ModuleNotFoundError) -> str:
    return f"shared.{store} needs a package that is not installed: {error.name}. Run: {INSTALL}"


def _valkey_lines(look: "ValkeyLook | Problem | None") -> list[str]:
    if look is None or isinstance(look, Problem):
        return [look.problem] if look is not None else []
    return [_say_store(look.version, look.latency_ms, look.clock_ahead_seconds), f"routers connected: {look.routers}"]


def _postgres_lines(look: "PostgresLook | Problem | None") -> list[str]:
    if look is None or isinstance(look, Problem):
        return [look.problem] if look is not None else []
    applied, pending = look.schema
    lines = [_say_store(look.version, look.latency_ms, look.clock_ahead_seconds)]
    lines.append(f"migrations applied: {_say_numbers(applied) or 'none, the database has no tables yet'}")
    if pending:
        lines.append(f"migrations missing: {_say_numbers(pending)}. Run {command_name()} stores migrate, or start a router")
    if look.rows is not None:
        newest = f", newest {day_and_clock(look.newest_at)}" if look.newest_at is not None else ""
        lines.append(f"ledger of all routers: {plural(look.rows, 'row')}{newest}")
    return lines


def _ledger_lines(look: Waiting | Problem | None, now: float) -> list[str]:
    if look is None or isinstance(look, Problem):
        return [look.problem] if look is not None else []
    lag = _lag_seconds(look, now)
    waiting = f"{plural(look.rows, 'row')} to copy, {duration(lag)} behind" if look.rows else "all rows are copied"
    lost = f"{plural(look.lost, 'row')} lost: too old before they could be copied, or refused"
    return [f"this machine: {waiting}", *([lost] if look.lost else [])]


def _valkey_json(look: "ValkeyLook | Problem | None") -> JsonObject | None:
    return None if look is None else dict(look._asdict())


def _postgres_json(look: "PostgresLook | Problem | None") -> JsonObject | None:
    if look is None or isinstance(look, Problem):
        return None if look is None else dict(look._asdict())
    return {
        "version": look.version,
        "latency_ms": look.latency_ms,
        "clock_ahead_seconds": look.clock_ahead_seconds,
        "migrations_applied": list(look.schema.applied),
        "migrations_missing": list(look.schema.pending),
        "ledger_rows": look.rows,
        "ledger_newest_at": look.newest_at,
    }


def _ledger_json(look: Waiting | Problem | None, now: float) -> JsonObject | None:
    if look is None or isinstance(look, Problem):
        return None if look is None else dict(look._asdict())
    return {"waiting_rows": look.rows, "lag_seconds": _lag_seconds(look, now), "lost_rows": look.lost}


def _lag_seconds(look: Waiting, now: float) -> float:
    return max(0.0, now - look.since) if look.since is not None else 0.0


def _say_store(version: str, latency_ms: float, ahead_seconds: float) -> str:
    direction = "ahead of" if ahead_seconds > 0 else "behind"
    clock = (
        f"; its clock is {abs(ahead_seconds):.0f} s {direction} this machine's" if abs(ahead_seconds) >= _CLOCK_SECONDS else ""
    )
    return f"{version}, {latency_ms:.1f} ms for a trip{clock}"


def _say_numbers(numbers: tuple[int, ...]) -> str:
    return ", ".join(f"{number:04}" for number in numbers)
