"""What people write that Tandem reads differently, with what to write instead."""

import re

from router.contract.shared import SharedTerms

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


def list_unshared(shared: SharedTerms | None, *, has_ledger: bool) -> list[str]:
    if shared is None:
        return []
    lacking = [name for name in _UNSHARED if getattr(shared, name) is None]
    lines = [f"{line} (set shared.{name})" for name in lacking for line in _UNSHARED[name]]
    if shared.postgres is not None and not has_ledger:
        lines.append("the ledger: ledger.path is null, so there is nothing to copy to shared.postgres")
    return lines


def find_variable(value: str) -> str:
    """The variable that a value names in the notation of a shell or another router."""
    text = value.strip()
    found = next((match for notation in _NOTATIONS if (match := notation.fullmatch(text))), None)
    if found is not None:
        return found[1]
    return text if _BARE.fullmatch(text) else ""
