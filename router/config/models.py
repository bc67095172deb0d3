"""The settings of `config.yaml`. Their docstrings are the reference and the schema; unknown keys are refused."""

from typing import Annotated

from pydantic import Field, field_validator

from router.config.settings import Settings, find_address_fault
from router.config.target_settings import TiersSettings
from router.contract.block import RESTART
from router.contract.combine import Combine
from router.contract.economics import Economics
from router.contract.job import JobTerms
from router.contract.limits import Limits
from router.contract.shared import SharedTerms
from router.contract.spending import find_zone
from router.contract.webhooks import JobWebhook
from router.contract.words import NearBudget, PassedRoute, Preference, Subagents, Tier

RELEASE = 4
"""The second number of Tandem's version: settings change with it."""
MAX_RULES = 200
SHIPPED_POLICIES = (
    "override",
    "rules",
    "capability",
    "window",
    "side_request",
    "effort",
    "learned",
    "boundary",
    "trajectory",
)
SHIPPED_MODELS = {
    "auto": "auto",
    "fast": "fast",
    "deep": "deep",
    "claude-auto": "auto",
    "claude-fast": "fast",
    "claude-deep": "deep",
    "*haiku*": "fast",
    "*-mini*": "fast",
    "*-fast": "fast",
    "*-deep": "deep",
    "*-auto": "auto",
    "gpt-*": "auto",
    "o3*": "auto",
    "o4*": "auto",
    "claude-*": "auto",
}
"""Model names in every config, extended by `models`. Claude Code lists only names that begin with claude."""


class ServerTlsSettings(Settings):
    """The router's own certificate. A reload reads both files again."""

    cert: str
    """PEM file: the certificate, then its issuers'."""
    key: str
    """PEM file with its private key."""


class ServerSettings(Settings):
    """Where the router listens."""

    host: Annotated[str, RESTART] = "127.0.0.1"
    """Address to bind."""
    port: Annotated[int, Field(ge=0, le=65_535), RESTART] = 4000
    """0 picks a free one."""
    tls: Annotated[ServerTlsSettings | None, RESTART] = None
    """Serves HTTPS, not HTTP."""
    stop_listening_after_seconds: Annotated[float, Field(ge=0, le=600), RESTART] = 0.0
    """How long a stop still takes connections."""


class KeysSettings(Settings):
    """The keys that callers need."""

    file: str = "keys.yaml"
    """Written by `tandem keys`, readable by its owner only."""


class BudgetsSettings(Settings):
    """How the budgets of keys are counted."""

    time_zone: str = "UTC"
    """Where days and months begin, as in Europe/Berlin."""
    warn_at: float = Field(default=0.8, gt=0, le=1)
    """Share from which it is nearly spent."""
    near: NearBudget = NearBudget.LEAN
    """Nearly spent: `lean` to fast (from 95 % nearly always), or only `refuse` what the rest cannot pay."""

    @field_validator("time_zone")
    @classmethod
    def _is_known(cls, value: str) -> str:
        find_zone(value)
        return value


class LedgerSettings(Settings):
    """The record of requests."""

    path: Annotated[str | None, RESTART] = "tandem.db"
    """SQLite file. Empty or null: no record."""
    keep_text: bool = False
    """Keep prompts and answers."""
    keep_days: Annotated[int, Field(ge=1, le=3_650), RESTART] = 31
    """Older entries are deleted. A monthly budget needs 31."""


class MetricsSettings(Settings):
    """The figures at `/metrics`, for Prometheus."""

    on: bool = True
    """Count and serve them."""
    callers: bool = False
    """Count some per caller, 200 at most."""
    key: str | None = None
    """A key, as env:NAME, that opens `/metrics` only."""


class TracesSettings(Settings):
    """Traces of requests, sent to a collector by OTLP over HTTP."""

    endpoint: str | None = None
    """Its address, such as http://127.0.0.1:4318."""
    sample: float = Field(default=0.1, ge=0, le=1)
    """Share of requests, unless `traceparent` says."""
    headers: str | None = None
    """Headers for it, as env:NAME: key=value,key=value."""

    @field_validator("endpoint")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not value.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://, as in http://127.0.0.1:4318")
        if "?" in value or "#" in value or "@" in value:
            raise ValueError("must not contain a query, a fragment or credentials; put a key in headers")
        if value.rstrip("/").endswith("/v1/traces"):
            raise ValueError("must not end in /v1/traces, which Tandem adds itself")
        if problem := find_address_fault(value):
            raise ValueError(problem)
        return value


class AlertsSettings(Settings):
    """Where alerts are sent, when a problem starts and when it ends."""

    webhook: str | None = None
    """As env:NAME: takes JSON with `text`, like Slack's."""


class StoreSettings(Settings):
    """The responses that later requests continue from (`previous_response_id`)."""

    path: Annotated[str | None, RESTART] = None
    """SQLite file for `store: true`, kept 30 days. Without: memory, at most an hour."""


class Config(Settings):
    """Everything."""

    server: ServerSettings = ServerSettings()
    """Where the router listens."""
    keys: Annotated[KeysSettings | None, RESTART] = None
    """Callers need keys. Absent: loopback only."""
    budgets: BudgetsSettings = BudgetsSettings()
    """How the budgets of keys are counted."""
    preference: Preference = Preference.BALANCED
    """What fast's wrong first answers cost: `speed`, `balanced`, `quality`."""
    spill_over: bool = True
    """A failed attempt may go to the other tier."""
    subagents: Subagents = Subagents.AUTO
    """`auto`: by their task; `fast`, `deep`: lean there. Searches lean to fast."""
    window_of_auto: Tier = Tier.DEEP
    """Window listed for auto: the largest of all (`deep`) or of `fast`."""
    in_band_line: bool = True
    """Obey people's first lines: `tier: fast`, `deep`, `auto`."""
    models: dict[str, str | None] = Field(default_factory=dict)
    """Names or patterns, each for auto, fast, deep or a target. `NAME: null` removes a built-in one, not auto."""
    tiers: TiersSettings
    """The two tiers and their targets."""
    pass_through: dict[PassedRoute, str] = Field(default_factory=dict)
    """Target of routes that are relayed: {embeddings: openai-fast}."""
    decision: Economics = Economics()
    """The economics of the choice."""
    combine: Combine = Combine()
    """Both tiers on one task. Off by default."""
    rules: tuple[object, ...] = Field(default=(), max_length=MAX_RULES)
    """Conditions, each with a `tier` or `lean`."""
    policies: tuple[object, ...] = Field(default=SHIPPED_POLICIES, max_length=100)
    """Which to use. Your own (alone, after the default): `- file: ./night.py` or `- package: night`."""
    limits: Limits = Limits()
    """Limits on callers, requests and answers."""
    jobs: JobTerms = JobTerms()
    """Background jobs (`background: true`)."""
    ledger: LedgerSettings = LedgerSettings()
    """The record of requests."""
    store: StoreSettings = StoreSettings()
    """Responses that later requests continue from."""
    page: bool = True
    """Serve the dashboard at `/`."""
    metrics: MetricsSettings = MetricsSettings()
    """Figures at `/metrics`, for Prometheus."""
    traces: TracesSettings = TracesSettings()
    """For a collector. Off by default."""
    alerts: AlertsSettings = AlertsSettings()
    """Messages when something breaks. Off by default."""
    webhooks: tuple[JobWebhook, ...] = Field(default=(), max_length=20)
    """Receivers of events of background jobs."""
    shared: Annotated[SharedTerms, RESTART] = SharedTerms()
    """What several routers share."""
    version: int | None = Field(default=None, ge=1)
    """Release it was written for: 4 for 0.4. Older ones refuse it."""

    @field_validator("version")
    @classmethod
    def _is_not_later(cls, value: int | None) -> int | None:
        if value is not None and value > RELEASE:
            raise ValueError(f"this file needs Tandem 0.{value} or later, and this is 0.{RELEASE}")
        return value

    @field_validator("keys", mode="before")
    @classmethod
    def _is_never_open(cls, value: object) -> object:
        """`keys:` without a value asks for keys."""
        return {} if value is None else value
