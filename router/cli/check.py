"""`tandem check`: everything that a router needs, and how to fix what is missing."""

import argparse

from router.cli import Ended
from router.cli.common import (
    add_config_argument,
    add_json_argument,
    find_config_in_use,
    load_in_use,
    number_between,
    print_json,
    say,
)
from router.cli.figures import plural
from router.cli.setup.findings import (
    FIX,
    Finding,
    describe,
    look_around,
    look_at_faults,
    look_at_python,
    look_at_tokenizer,
    say_findings,
)
from router.cli.setup.pair import describe_tiers, look_at_pair
from router.cli.setup.remote import look_at_stores, look_at_targets, say_numbers
from router.config.load import ConfigError, LoadedConfig, load_config
from router.config.schema import write_schema
from router.contract.shared import PostgresTerms
from router.contract.stores import StoreUnusable
from router.stores.look import migrate
from router.stores.shared import say_missing
from router.wiring.build import known_names

EXAMPLES = (
    "check",
    "check --live",
    "check --live --no-calls --timeout 5",
    "check --json --config work.yaml",
    "check --migrate",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument(
        "--live",
        action="store_true",
        help="also ask targets (a few tokens) and shared stores",
    )
    parser.add_argument("--no-calls", action="store_true", help="with --live: ask only for models (no tokens)")
    parser.add_argument(
        "--timeout",
        type=number_between(0.1, 600),
        default=10.0,
        metavar="SECONDS",
        help="for each target (default: %(default)g)",
    )
    parser.add_argument("--migrate", action="store_true", help="only bring the tables of shared.postgres to this release")
    add_json_argument(parser)
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of config.yaml")
    parser.add_argument("--verbose", action="store_true", help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Exit codes: 0 nothing to fix, 1 something, 2 `tandem serve` would refuse to start."""
    if arguments.schema:
        print(write_schema(known_names()), end="")
        return 0
    if arguments.migrate:
        return _migrate(load_in_use(arguments.config).shared_postgres, as_json=arguments.json)
    try:
        path = find_config_in_use(arguments.config)
        loaded = load_config(path, known_names())
        source, findings = loaded.source, _look(arguments, loaded)
    except ConfigError as error:
        source, findings = error.source, look_at_faults(error)
    if arguments.json:
        print_json([finding.as_json() for finding in findings])
    else:
        say_findings(findings)
    count = sum(finding.state == FIX for finding in findings)
    say(f"{source}: {plural(count, 'thing') if count else 'nothing'} to fix")
    return 2 if any(finding.is_refusal for finding in findings) else 1 if count else 0


def _look(arguments: argparse.Namespace, loaded: LoadedConfig) -> list[Finding]:
    findings = look_around(loaded, in_full=arguments.live) + look_at_pair(loaded)
    if arguments.verbose:  # speed and exactness, which newcomers need not know
        findings += [look_at_python(), look_at_tokenizer()]
    if not arguments.live:
        return [*findings, *describe(loaded), *describe_tiers(loaded)]
    models = sum(plan.is_model and not plan.target.is_plan for plan in loaded.targets)
    if models and not arguments.no_calls:
        say(f"asking {plural(models, 'target')} for a short answer, which costs a few tokens (--no-calls skips this)")
    return [
        *findings,
        *look_at_stores(loaded),
        *look_at_targets(loaded, arguments.timeout, calls=not arguments.no_calls),
    ]


def _migrate(terms: PostgresTerms | None, *, as_json: bool) -> int:
    if terms is None:
        raise Ended(2, "there is nothing to migrate: shared.postgres is not set")
    try:
        before, applied = migrate(terms)
    except ModuleNotFoundError as error:
        raise Ended(2, say_missing("shared.postgres needs", error.name)) from error
    except StoreUnusable as error:
        raise Ended(1, f"shared.postgres: {error}") from error
    if as_json:
        print_json({"before": list(before), "applied": list(applied)})
    elif applied:
        print(f"shared.postgres: applied {say_numbers(applied)}")
    else:
        print("shared.postgres: nothing to do, the tables are up to date")
    return 0
