"""What people write that Tandem reads differently, with what to write instead."""

import re
from collections.abc import Mapping
from typing import cast

from router.config.faults import Fault
from router.config.gone import list_ignored
from router.contract.shared import SharedTerms

_PAGE = "docs/coming-from.md"
_ROUTERS: Mapping[str, tuple[frozenset[str], ...]] = {
    "LiteLLM": (frozenset({"model_list"}), frozenset({"litellm_settings"}), frozenset({"router_settings", "general_settings"})),
    "claude-code-router": (frozenset({"Providers"}), frozenset({"Router", "PROXY_URL"})),
    "Bifrost": (frozenset({"providers", "governance"}), frozenset({"providers", "client"})),
    "Portkey": (frozenset({"strategy", "targets"}),),
    "RouteLLM": (frozenset({"routers", "strong_model"}),),
}
_UNSHARED = {
    "valkey": (
        "sessions: a router knows only those that it served itself",
        "rates, budgets and quotas: each router counts by itself, so several together allow a multiple",
        "Idempotency-Key: a request is repeated safely only at the router that had it first",
        "previous_response_id: only the router that answered knows the response, unless it was stored",
        "what targets report (429, failures, speed), revoked keys and the live page: each router has its own",
    ),
    "postgres": (
        "responses with store: true: only the router that answered has them",
        "the ledger: each router has its own, and there is none of all of them",
        "background jobs: only the router that accepted a job runs it and knows it",
    ),
    "secret": ("turn tokens: a router accepts only those that it signed itself",),
}
_NAME = r"([A-Za-z_][A-Za-z0-9_]*)"
_NOTATIONS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\${_NAME}",
        rf"\$\{{(?:env[:.])?{_NAME}(?::?-[^}}]*)?\}}",
        rf"os\.environ[/.]{_NAME}",
        rf"os\.environ\[['\"]?{_NAME}['\"]?\]",
        rf"\{{\{{\s*(?:env[.:])?{_NAME}\s*\}}\}}",
        rf"%{_NAME}%",
        rf"(?i:env)[:./]\s*{_NAME}",
        rf"process\.env\.{_NAME}",
    )
)
_BARE = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]*(?:KEY|TOKEN|SECRET)[A-Z0-9_]*")


def without_ignored(content: Mapping[str, object]) -> Mapping[str, object]:
    """Old settings are left out, or have their new name."""
    for (block, name), gone in list_ignored(content).items():
        rest = dict(cast("dict[str, object]", content[cast("str", block)]))
        value = rest.pop(cast("str", name))
        if gone.new_name:
            rest.setdefault(gone.new_name, value)
        content = {**content, cast("str", block): rest}
    return content


def warn_of_ignored(content: Mapping[str, object]) -> list[str]:
    return [f"{'.'.join(map(str, steps))}: {gone.problem}; {gone.cure}" for steps, gone in list_ignored(content).items()]


def list_unshared(shared: SharedTerms | None, *, has_ledger: bool) -> list[str]:
    if shared is None:
        return []
    lacking = [name for name in _UNSHARED if getattr(shared, name) is None]
    lines = [f"{line} (set shared.{name})" for name in lacking for line in _UNSHARED[name]]
    if shared.postgres is not None and not has_ledger:
        lines.append("the ledger: ledger.path is null, so there is nothing to copy to shared.postgres")
    return lines


def find_other_router(content: Mapping[object, object]) -> Fault | None:
    if "tiers" in content:
        return None
    names = {name for name in content if isinstance(name, str)}
    for router, marks in _ROUTERS.items():
        if any(mark <= names for mark in marks):
            return Fault("file", f"this is a config of {router}, not of Tandem", f"see {_PAGE}; tandem init writes one of ours")
    return None


def find_variable(value: str) -> str:
    """The variable that a value names in the notation of a shell or another router."""
    text = value.strip()
    found = next((match for notation in _NOTATIONS if (match := notation.fullmatch(text))), None)
    if found is not None:
        return found[1]
    return text if _BARE.fullmatch(text) else ""
