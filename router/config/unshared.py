"""What routers with one config do not share, line by line: for who runs several of them and left a part out."""

from router.config.load import LoadedConfig

_WITHOUT_VALKEY = (
    "sessions: a router knows only those that it served itself (set shared.valkey)",
    "rates, budgets and quotas: each router counts by itself, so several together allow a multiple (set shared.valkey)",
    "Idempotency-Key: a request is repeated safely only at the router that had it first (set shared.valkey)",
    "previous_response_id: only the router that answered knows the response, unless it was stored (set shared.valkey)",
    "what targets report (429, failures, speed), revoked keys and the live page: each router has its own (set shared.valkey)",
)
_WITHOUT_POSTGRES = (
    "responses with store: true: only the router that answered has them (set shared.postgres)",
    "the ledger: each router has its own, and there is none of all of them (set shared.postgres)",
    "background jobs: only the router that accepted a job runs it and knows it (set shared.postgres)",
)
_UNSIGNED = "turn tokens: a router accepts only those that it signed itself (set shared.secret)"
_UNKEPT = "the ledger: ledger.path is null, so there is nothing to copy to shared.postgres"


def list_unshared(loaded: LoadedConfig) -> list[str]:
    """What is not shared though routers share something. Nothing for a router that shares nothing."""
    shared = loaded.shared
    if shared is None:
        return []
    lines: list[str] = [] if shared.valkey is not None else [*_WITHOUT_VALKEY]
    if shared.postgres is None:
        lines += _WITHOUT_POSTGRES
    elif loaded.ledger_path is None:
        lines.append(_UNKEPT)
    return lines if shared.secret is not None else [*lines, _UNSIGNED]
