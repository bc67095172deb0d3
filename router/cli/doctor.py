"""`tandem doctor`."""

import argparse
import time
from dataclasses import asdict

from pydantic import ValidationError

from router.cli.common import add_config_argument, add_timeout_argument, init_command, print_json, say
from router.cli.setup.findings import (
    FIX,
    GOOD,
    NOTE,
    Finding,
    all_faults,
    look_at_certificate,
    look_at_clients,
    look_at_keys,
    look_at_ledger,
    look_at_port,
    look_at_python,
    look_at_targets,
    look_at_tokenizer,
    look_at_windows,
    say_findings,
)
from router.config.faults import Fault
from router.config.load import ConfigError, LoadedConfig, find_config, load_config
from router.config.models import ServerSettings
from router.screen.figures import plural
from router.wiring.build import known_names

EXAMPLES = ("doctor", "doctor --no-calls", "doctor --json --timeout 5")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument(
        "--no-calls", action="store_true", help="skip the short test call to each target, which costs a few tokens"
    )
    add_timeout_argument(parser)
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="also show how Python was built and how tokens are counted"
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Check everything that a router needs and suggest how to fix problems. 0 means nothing to fix."""
    loaded: LoadedConfig | None = None
    try:
        loaded = load_config(find_config(arguments.config), known_names())
        server = loaded.config.server
        findings = [Finding("config", GOOD, f"{loaded.source} ({loaded.fingerprint})")]
        findings += [Finding("config", NOTE, warning) for warning in loaded.warnings]
        if loaded.is_simulated:
            hint = f"{init_command()} writes a config for your keys and local servers"
            findings.append(Finding("config", NOTE, "no model is configured: simulated tiers answer", hint))
    except ConfigError as error:
        findings = [_tell_fault(error.source, fault) for fault in all_faults(error)]
        server = _salvage_server(error)
    if arguments.verbose:  # how fast and how exact it could be: nothing that a newcomer must know
        findings += [look_at_python(), look_at_tokenizer()]
    findings.append(
        look_at_port(
            server.host,
            server.port,
            needs_keys=loaded is not None and loaded.keys is not None,
            is_tls=server.tls is not None,
        )
    )
    if loaded is not None:
        findings += [
            *look_at_certificate(loaded, time.time()),
            *look_at_clients(loaded),
            *look_at_ledger(loaded.ledger_path),
            *look_at_keys(loaded),
            *look_at_windows(loaded),
            *_look_at_targets(arguments, loaded),
        ]
    if arguments.json:
        print_json([asdict(finding) for finding in findings])
    else:
        say_findings(findings)
    return _end(findings)


def _salvage_server(error: ConfigError) -> ServerSettings:
    """Where the router of a faulty config would listen, if the file says."""
    try:
        return ServerSettings.model_validate(error.content.get("server") or {})
    except ValidationError:
        return ServerSettings()


def _tell_fault(source: str, fault: Fault) -> Finding:
    place = source if fault.path == "file" else fault.place
    return Finding("config", FIX, f"{place}: {fault.problem}", fault.hint)


def _look_at_targets(arguments: argparse.Namespace, loaded: LoadedConfig) -> list[Finding]:
    models = sum(plan.is_model for plan in loaded.targets)
    if models and not arguments.no_calls:
        say(f"asking {plural(models, 'target')} for a short answer, which costs a few tokens (--no-calls skips this)")
    return look_at_targets(loaded, arguments.timeout, calls=not arguments.no_calls)


def _end(findings: list[Finding]) -> int:
    count = sum(finding.state == FIX for finding in findings)
    say(f"{plural(count, 'thing')} to fix" if count else "nothing to fix")
    return 1 if count else 0
