"""Facts that pages state and the code knows, which `docs/generate.py` writes between marks.

    <!-- fact packages-serve -->36<!-- end -->

An unknown name is an error.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_args

import yaml
from packaging.requirements import Requirement
from tables import REFERENCE, list_settings

from adapters.simulated import Fault
from router.cli import background, mcp_tools
from router.config import changes
from router.config.models import Config
from router.dialects import histories
from router.edge import logins
from router.jobs import webhooks
from router.stores.sqlite.archive import ASIDE, PLAIN
from router.telemetry import traces

HERE = Path(__file__).resolve().parent
_MARK = re.compile(r"(<!-- fact ([a-z-]+) -->)(.*?)(<!-- end -->)", re.DOTALL)
_MACHINE = {
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "os_name": "posix",
    "python_version": "3.11",
    "python_full_version": "3.11.0",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
}
"""The one that packages are counted for."""


def count_packages(lock: str) -> str:
    text = (HERE.parent / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
    pins = [Requirement(line) for line in re.findall(r"^([a-z0-9._-]+==[^\\\n]+?)\s*\\?$", text, re.MULTILINE)]
    return str(sum(pin.marker is None or pin.marker.evaluate(_MACHINE) for pin in pins))


def name_all(names: tuple[str, ...] | list[str]) -> str:
    *first, last = (f"`{name}`" for name in names)
    return f"{', '.join(first)} and {last}"


def list_restarts() -> str:
    return name_all(changes.list_restarts())


def say_summary(template: str) -> str:
    """Without the instance, with names in place of labels."""
    _, _, text = template.partition(": ")
    return re.sub(r"\{\{ \$value[^}]*\}\}", "…", re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"(\1)", text))


def list_alerts() -> str:
    groups = yaml.safe_load((HERE / "deploy" / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    rows = [
        f"| `{rule['alert']}` | {rule['labels']['severity']} | {say_summary(rule['annotations']['summary'])} |"
        for group in groups
        for rule in group["rules"]
    ]
    return as_table("| alert | severity | what it says |", rows)


_FAULTS = {
    "queue": "the first token comes `seconds` later",
    "loading": "503, as from a local engine whose model is not in memory yet, for `seconds` from the first request on",
    "rate_limit": "429, with `Retry-After` if `retry_after_seconds` is set",
    "error": "`status`, 500 to 599",
    "cut": "a stream breaks off after `after_tokens`",
    "too_long": "400, as for a prompt that is too long",
    "no_images": "400 for a request with an image",
}


def list_faults() -> str:
    kinds = get_args(Fault.model_fields["kind"].annotation)
    return as_table("| kind | what happens |", [f"| `{kind}` | {_FAULTS[kind]} |" for kind in kinds])


LEAVES: Mapping[str, tuple[str, str]] = {
    "tiers.fast.targets[].base_url": (
        "the chosen target",
        "the request's body, with `user` and `metadata`, translated if the target speaks another API. Of your "
        "client's headers, only `openai-beta`, `x-client-request-id`, `anthropic-version` and `anthropic-beta`. If it "
        "fails, up to two other targets, of the other tier too unless `spill_over: false`. With `billing: plan`, nearly what "
        "your client sent, [with its login](../reference/http.md#on-a-plan)",
    ),
    "traces.endpoint": (
        "the collector",
        "of sampled requests, times, targets, models, tier, reason, tokens, status, path, and a digest of caller "
        "and session. Targets may get `traceparent` and the caller's `tracestate`",
    ),
    "alerts.webhook": ("that address", "each problem's text, kind, time and hint, which may name the target, caller or store"),
    "webhooks[].url": ("that address", "the id of a background job that ended, and how it ended"),
    "shared.valkey.url": (
        "the Valkey or Redis server",
        "texts of responses for an hour, and answers to requests with an `Idempotency-Key` for ten "
        "minutes. Without text: sessions for 7 days, limits, budgets, the state of targets, live figures, digests of revoked "
        "keys",
    ),
    "shared.postgres.url": (
        "the database",
        'background jobs and responses with `"store": true`, with their text, and a copy of the ledger\'s rows',
    ),
}
"""For each setting that holds an address: who gets something, and what."""


def list_leaving() -> str:
    return as_list([f"- `{setting.replace('.fast.', '.….')}`, {who}: {what}." for setting, (who, what) in LEAVES.items()])


FILES: Mapping[str, tuple[str, ...]] = {
    "next to the config": (
        *PLAIN,
        "config.yaml.bak",
        "keys.yaml.before",
        "tandem.db",
        "tandem.db.before-…",
        "tandem.db.lock",
        "jobs.db",
        ".env",
        f"….{ASIDE.removeprefix('.')}",
    ),
    "`~/.local/state/tandem/`": ("connect/", "routers/"),
    "`~/Library/Logs/` on macOS, with the service": ("tandem.log",),
}
"""What Tandem writes, or is given to read, by where it is."""


def list_files() -> str:
    rows = [f"| {where} | {', '.join(f'`{name}`' for name in names)} |" for where, names in FILES.items()]
    return as_table("| where | what |", rows)


def as_table(head: str, rows: list[str]) -> str:
    """With empty lines around it, without which the site shows no table."""
    return "\n\n" + "\n".join([head, "|" + " --- |" * (head.count("|") - 1), *rows]) + "\n\n"


def as_list(rows: list[str]) -> str:
    """With empty lines around it, as `as_table`."""
    return "\n\n" + "\n".join(rows) + "\n\n"


FACTS: Mapping[str, Callable[[], str]] = {
    "packages-serve": lambda: count_packages("serve"),
    "packages-dev": lambda: count_packages("dev"),
    "restarts": list_restarts,
    "alerts": list_alerts,
    "faults": list_faults,
    "leaving": list_leaving,
    "files": list_files,
    "collect-usual": lambda: str(mcp_tools.USUAL_WAIT_SECONDS),
    "collect-most": lambda: str(mcp_tools.MOST_WAIT_SECONDS),
    "conversations": lambda: f"{histories.MAX_BYTES >> 20} MiB of text, up to four times that with what was parsed of it",
    **REFERENCE,
}


def default_of(path: str) -> str:
    """The default of a setting, as a page writes a number."""
    (found,) = (setting.default for setting in list_settings(Config) if setting.path == path)
    return found.removesuffix(".0")


STATED: Mapping[str, Callable[[], tuple[str, ...]]] = {
    "run/metrics.md": lambda: (f"at most {traces.MAX_WAITING:,} requests",),
    "run/webhooks.md": lambda: (f"for {webhooks.GIVE_UP_SECONDS / 3_600:g} hours",),
    "use/background-jobs.md": lambda: (
        f"up to {background.MOST_FILE_BYTES >> 10} KB",
        f"may have {background.MOST_BYTES >> 20} MB",
        f"{default_of('jobs.keep_hours')} hours after the job ends",
    ),
    "use/dashboard.md": lambda: (f"logged in for {logins.LOGIN_SECONDS // 3_600} hours",),
}
"""Limits and times that pages state in a sentence: too short for marks, so a test looks for them."""


def fill(text: str) -> str:
    """A page with its facts as they are now. Raises `KeyError` for a fact that is not known."""
    return _MARK.sub(lambda found: f"{found[1]}{FACTS[found[2]]()}{found[4]}", text)


def pages() -> list[Path]:
    """Every page that may have marks. Records of decisions say what was true then."""
    found = [*HERE.parent.glob("*.md"), *HERE.rglob("*.md")]
    return sorted(page for page in found if page.parent.name != "decisions")
