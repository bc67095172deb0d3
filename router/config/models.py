"""The settings of `config.yaml`. Their docstrings are the reference and the schema; unknown keys are refused."""

import shlex
from typing import Annotated, Literal

from pydantic import Field, field_validator

from router.config.settings import Settings, find_address_fault
from router.config.target_settings import TiersSettings
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
    """A PEM file with the certificate, and those of its issuers after it. Relative to the config file."""
    key: str
    """A PEM file with its private key."""


class ServerSettings(Settings):
    """Where the router listens."""

    host: str = "127.0.0.1"
    """The address to bind. Without `keys`, only loopback is allowed."""
    port: int = Field(default=4000, ge=0, le=65_535)
    """The port to bind; 0 picks a free one."""
    tls: ServerTlsSettings | None = None
    """Serves HTTPS instead of HTTP."""
    workers: Annotated[int, Field(ge=1, le=256)] | Literal["auto"] = 1
    """Processes that serve the address; `auto`: one per core. Several need the extra `shared` and a Valkey or Redis server:
    that of `shared.valkey`, or else a local `valkey-server` or `redis-server`, which Tandem starts."""
    stop_listening_after_seconds: float = Field(default=0.0, ge=0, le=600)
    """How long new connections are still accepted after SIGTERM, while `/readyz` already answers 503, for load balancers that
    are slow to notice."""


class KeysSettings(Settings):
    """The keys that callers need."""

    file: str = "keys.yaml"
    """The file of keys, relative to the config file. `tandem keys` writes it. Only its owner may be able to read it. Changes
    are noticed within seconds."""


class BudgetsSettings(Settings):
    """How the budgets of keys are counted."""

    time_zone: str = "UTC"
    """Where days and months begin: a name such as Europe/Berlin. After a reload, it counts from the next day and month."""
    warn_at: float = Field(default=0.8, gt=0, le=1)
    """The share of a budget from which it is nearly spent: a notice says so, and decisions lean to fast (`near`)."""
    near: NearBudget = NearBudget.LEAN
    """What `auto` does near the end of a budget. lean: from `warn_at` on it leans to fast, and from 95 % on, or where the rest
    does not cover a deep answer, it is fast. refuse: it decides as ever, and is refused where the rest does not cover that."""

    @field_validator("time_zone")
    @classmethod
    def _is_known(cls, value: str) -> str:
        find_zone(value)
        return value


class SecondOpinionSettings(Settings):
    """In doubt, ask a target whether a turn is quick or long. It then receives up to 900 characters of what people typed."""

    target: str
    """The target to ask: one under `tiers` with its own key. A small, quick model is enough."""
    max_wait_seconds: float = Field(default=0.4, gt=0, le=10)
    """How long a turn may wait for the answer. Later answers are ignored."""


class LedgerSettings(Settings):
    """The record of requests."""

    path: str | None = "tandem.db"
    """The SQLite file, relative to the config file. Empty or null: no record is kept."""
    keep_text: bool = False
    """Whether prompts and answers are kept. Off: the ledger holds no text, but see `keep_word_hashes`."""
    keep_word_hashes: bool = True
    """Whether hashes of words are kept: of each caller's newest 100 turns for a day, and of turns marked with `tandem wrong`.
    Marks teach from them. Anyone with the file and a word list can recover the words. Off: marks teach nothing."""
    keep_days: int = Field(default=31, ge=1, le=3_650)
    """Older entries are deleted. A monthly budget needs 31."""


class MetricsSettings(Settings):
    """The figures at `/metrics`, for Prometheus."""

    on: bool = True
    """Whether they are counted and served."""
    callers: bool = False
    """Whether some are also counted per caller with a key, for at most 200 callers."""
    key: str | None = None
    """If callers need keys: a key, as env:NAME, that opens `/metrics` and nothing else. An admin's key opens it too."""


class TracesSettings(Settings):
    """Traces of requests, sent to a collector by OTLP over HTTP."""

    endpoint: str | None = None
    """Its address, such as http://127.0.0.1:4318. Absent: no traces."""
    sample: float = Field(default=0.1, ge=0, le=1)
    """The share of requests to trace. A request's own `traceparent` takes precedence."""
    headers: str | None = None
    """Headers for the collector, as env:NAME, in the form of OTEL_EXPORTER_OTLP_HEADERS: key=value,key=value."""

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
    """Where to send word when something breaks, and when it works again."""

    webhook: str | None = None
    """An address that takes a POST of JSON with `text`, as Slack and Mattermost do, always as env:NAME. It gets one message
    when a problem begins and one when it is over. Absent: nothing is sent."""


class DelegationSettings(Settings):
    """The coding agent of `tandem delegate --agent`."""

    runner: str | None = None
    """The command of a coding agent, such as codex exec --sandbox workspace-write. `tandem delegate --agent` runs it in a new
    git worktree, with the task as its last argument and without a shell. Absent: `--agent` is refused."""

    @field_validator("runner")
    @classmethod
    def _is_a_command(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            words = shlex.split(value)
        except ValueError as error:
            raise ValueError(f"cannot be read as a command: {str(error).lower()}") from error
        if not words or "\0" in value:
            raise ValueError("must be the command of a program")
        return value


class StoreSettings(Settings):
    """The responses that later requests continue from (`previous_response_id`)."""

    path: str | None = None
    """A SQLite file for responses created with an explicit `store: true`, kept for 30 days. Relative to the config file.
    Without it, responses stay in memory for up to an hour."""


class Config(Settings):
    """Everything."""

    server: ServerSettings = ServerSettings()
    """Where the router listens."""
    keys: KeysSettings | None = None
    """The keys that callers need. Absent: none are needed, and the router listens on loopback only."""
    budgets: BudgetsSettings = BudgetsSettings()
    """How the budgets of keys are counted."""
    preference: Preference = Preference.BALANCED
    """How much a wrong first answer from fast costs. `speed`: little, so anything that could be quick goes to fast. `balanced`:
    more, so what is probably quick does. `quality`: a lot, so only what is clearly quick does."""
    spill_over: bool = True
    """Whether a failed attempt may go to the other tier."""
    subagents: Subagents = Subagents.AUTO
    """Where the subagents of Codex, Claude Code and opencode go. auto: each is decided by what it was told to do. deep or fast:
    they lean to that tier, while your own turns are decided as usual. With deep, subagents that only read and search, such as
    `Explore`, still lean to fast."""
    window_of_auto: Tier = Tier.DEEP
    """Which context window the model lists report for auto. deep: the largest of all targets. fast: the largest of the fast
    tier, so that clients compact while fast can still serve the session."""
    in_band_line: bool = True
    """Whether a first line `tier: fast`, `tier: deep` or `tier: auto` in a message is obeyed, for clients that cannot set
    headers."""
    models: dict[str, str | None] = Field(default_factory=dict)
    """Model names and patterns with *, each mapped to auto, fast, deep or a target's name. They extend the built-in names,
    listed below, and take precedence. `NAME: null` removes a built-in one, `"*": null` all built-in patterns."""
    tiers: TiersSettings
    """The two tiers and their targets."""
    pass_through: dict[PassedRoute, str] = Field(default_factory=dict)
    """The target for each route that Tandem does not decide, such as {embeddings: openai-fast}. Requests are relayed unchanged,
    with the target's key, and recorded. Other routes answer 404."""
    decision: Economics = Economics()
    """The economics of the choice."""
    second_opinion: SecondOpinionSettings | None = None
    """The target to ask about turns in doubt. Off by default."""
    combine: Combine = Combine()
    """Both tiers on one task: deep plans and fast edits, or fast works and deep looks it over. Off by default."""
    rules: tuple[object, ...] = Field(default=(), max_length=MAX_RULES)
    """Your own rules, applied where a turn begins: {when: {words, client, turn, has, more_than_tokens}, tier: fast} or
    lean: 2.0."""
    policies: tuple[object, ...] = Field(default=SHIPPED_POLICIES, max_length=100)
    """The policies in use, in any order. One of your own is a file (`- file: ./night.py`) or an installed module
    (`- package: night`), with `settings:` if it has any; where only your own are listed, the shipped ones stay."""
    limits: Limits = Limits()
    """Limits on callers, requests and answers."""
    jobs: JobTerms = JobTerms()
    """Background work: requests with `background: true`."""
    ledger: LedgerSettings = LedgerSettings()
    """The record of requests."""
    store: StoreSettings = StoreSettings()
    """The responses that later requests continue from."""
    page: bool = True
    """Whether browsers are shown a live page at `/`. Off: no page, and no live feed."""
    metrics: MetricsSettings = MetricsSettings()
    """The figures at `/metrics`, for Prometheus."""
    traces: TracesSettings = TracesSettings()
    """Traces of requests, for a collector. Off by default."""
    alerts: AlertsSettings = AlertsSettings()
    """Where to send word when something breaks. Off by default."""
    delegation: DelegationSettings = DelegationSettings()
    """The coding agent of `tandem delegate --agent`."""
    webhooks: tuple[JobWebhook, ...] = Field(default=(), max_length=20)
    """Receivers of an event when a background job ends. None by default."""
    shared: SharedTerms = SharedTerms()
    """What several routers share. Nothing by default."""
    version: int | None = Field(default=None, ge=1)
    """The release of Tandem that the file was written for: 4 for 0.4. An older Tandem then refuses it and says which one it
    needs."""

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
