"""The greeting of `tandem serve` without a screen, and warnings of its certificate."""

import json
import time

from router.cli.common import common_dialect, init_command
from router.config.certificate import read_certificate
from router.config.load import LoadedConfig
from router.contract.words import Dialect, Operation
from router.dialects.table import SPECS

QUICK_EXAMPLE = "Fix the typo in this line: retrun x"
LONG_EXAMPLE = "Implement an expression parser with tests and docs, step by step, until everything passes"


def welcome(loaded: LoadedConfig, url: str) -> str:
    lines = []
    if loaded.is_simulated:
        lines += [
            f"No model is configured ({loaded.source}), so simulated tiers answer, with placeholder text at realistic speeds.",
            f"`{init_command()}` writes a config.yaml for the keys and local servers it finds here.",
        ]
    else:
        names = ", ".join(f"{plan.target.tier} {plan.target.name}" for plan in loaded.targets)
        lines.append(f"Serving {names} ({loaded.source}).")
    if loaded.second_opinion:
        lines.append(f"Second opinion: {loaded.second_opinion}.")
    dialect = common_dialect(loaded)
    lines += [
        "",
        f"Base URL    {url}/v1          (Claude Code and Anthropic SDKs: {url})",
        "",
        "A quick edit:",
        _curl(url, dialect, QUICK_EXAMPLE),
        "A long task:",
        _curl(url, dialect, LONG_EXAMPLE),
        "",
    ]
    return "\n".join(lines)


def _curl(url: str, dialect: Dialect, words: str) -> str:
    spec = SPECS[dialect]
    body = {**spec.write_example(words), **spec.stream_fields}
    return f"  curl -iN {url}/v1{spec.paths[Operation.CREATE]} -H 'content-type: application/json' -d '{json.dumps(body)}'"


def warn_of_expiry(loaded: LoadedConfig) -> list[str]:
    if loaded.tls_paths is None:
        return []
    certificate, now = read_certificate(loaded.tls_paths), time.time()
    return [f"server.tls.cert: {certificate.describe(now)}"] if certificate.expires_soon(now) else []
