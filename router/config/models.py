"""The settings, as they are in `config.yaml`. Every field says what it does; unknown keys are refused."""

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator, field_validator

from router.config.values import ExtraValue, find_address_fault, fits_header
from router.contract.periods import find_zone
from router.contract.target import LEAST_STEP_TOKENS
from router.contract.words import Feature, PassedRoute, Preference, Tier

Seconds = Annotated[float, Field(gt=0, le=86_400)]
OPTIONS = "options"
OPTIONS_ALIAS = "simulated"
"""An older name for `options`, in the blocks of the adapter of that name."""
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
"""The model names that every config has, and to which `models` adds. Claude Code lists only names that begin with claude."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def _is_a_policy(value: object, check: ValidatorFunctionWrapHandler) -> object:
    try:
        return check(value)
    except ValidationError:
        raise ValueError("must be a name, or one name with its settings") from None


PolicyEntry = Annotated[str | dict[str, dict[str, object] | None], WrapValidator(_is_a_policy)]


class Settings(BaseModel):
    """A block of settings: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


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
    stop_listening_after_seconds: float = Field(default=0.0, ge=0, le=600)
    """How long new connections are still accepted after SIGTERM, while `/readyz` already answers 503. For load balancers that
    take a moment to notice."""


class KeysSettings(Settings):
    """The keys that callers need."""

    file: str = "keys.yaml"
    """The file of keys, relative to the config file. `tandem keys` writes it. Only its owner may be able to read it. Changes
    are noticed within seconds."""


class BudgetsSettings(Settings):
    """How the budgets of keys are counted."""

    time_zone: str = "UTC"
    """Where a day and a month begin: a name such as Europe/Berlin. After a reload, it counts from the next day and month on."""
    warn_at: float = Field(default=0.8, gt=0, le=1)
    """The part of a budget from which on answers say how much is spent, in `x-tandem-budget`."""

    @field_validator("time_zone")
    @classmethod
    def _is_known(cls, value: str) -> str:
        find_zone(value)
        return value


class TypicalSettings(Settings):
    """What is expected of a target before it has been measured, and again after a long time without use."""

    ttft_seconds: Annotated[float, Field(ge=0, le=600)] | None = None
    """Time to first token for a short prompt. By default 0.3 on fast, 1.2 on deep."""
    tokens_per_second: Annotated[float, Field(gt=0, le=100_000)] | None = None
    """How fast it writes. By default 600 on fast, 70 on deep."""
    prefill_tokens_per_second: Annotated[float, Field(gt=0)] | None = None
    """How fast it reads a prompt that is not cached. By default 20000 on fast, 10000 on deep."""


class PriceStepSettings(Settings):
    """USD per million tokens for requests with a long prompt, applied to all of a request's tokens."""

    above_tokens: int = Field(ge=LEAST_STEP_TOKENS)
    """It applies to prompts longer than this."""
    input: float = Field(ge=0)
    """For prompt tokens."""
    output: float = Field(ge=0)
    """For tokens of the answer."""
    cached_input: float | None = Field(default=None, ge=0)
    """For prompt tokens read from the target's cache. When absent, it rises in proportion to `input`."""
    cache_write: float | None = Field(default=None, ge=0)
    """For prompt tokens written to the cache. When absent, it rises in proportion to `input`."""


class PriceSettings(Settings):
    """USD per million tokens. Without a price, cost is unknown, not 0."""

    input: float = Field(ge=0)
    """For prompt tokens."""
    output: float = Field(ge=0)
    """For tokens of the answer."""
    cached_input: float | None = Field(default=None, ge=0)
    """For prompt tokens read from the target's cache; `input` when absent."""
    cache_write: float | None = Field(default=None, ge=0)
    """For prompt tokens written to the cache; `input` when absent."""
    cache_minutes: float = Field(default=5.0, ge=0, le=10_080)
    """How long a cached prompt stays warm."""
    steps: tuple[PriceStepSettings, ...] = ()
    """Higher prices for longer prompts: [{above_tokens: 200000, input: 4.0, output: 18.0}]."""


class QuotaSettings(Settings):
    """Limits of the provider. Requests beyond them wait in a fair queue, or go to another target."""

    requests_per_minute: int | None = Field(default=None, gt=0)
    """Requests that the provider allows in any minute."""
    tokens_per_minute: int | None = Field(default=None, gt=0)
    """Tokens that the provider allows in any minute, of prompts and answers together. An answer counts by its usual length
    until it is known."""
    in_flight: int | None = Field(default=None, gt=0)
    """Requests that the provider allows at once."""
    max_wait_seconds: float | None = Field(default=None, ge=0)
    """How long a request may wait for its turn. One that would wait longer goes to another target or, if it asked for this
    one, gets a 429 at once. By default until its deadline. On fast, a target whose own queue is longer is passed over too, and
    a stream that has not begun by then moves on to another target."""


class TimeoutSettings(Settings):
    """How long a call to this target may wait. What is absent comes from `limits`."""

    connect_seconds: Seconds | None = None
    """To open a connection."""
    first_byte_seconds: Seconds | None = None
    """From the request to the first byte of an answer. Unlike the one in `limits`, it also applies to answers that are not
    streamed."""
    stall_seconds: Seconds | None = None
    """Between two events of a streamed answer. Comments do not count."""


class TlsSettings(Settings):
    """How this target's TLS differs from the machine's default."""

    ca_file: str | None = None
    """A PEM file of certificate authorities to trust. Relative to the config file."""
    client_cert: str | None = None
    """A client certificate and its key in one PEM file, for a target that requires one."""


class TargetSettings(Settings):
    """One model at one address."""

    name: str
    """Its name in Tandem, shown in headers and logs. Callers may ask for it as a model."""
    adapter: str = "openai_http"
    """How it is reached. The adapters are listed below, each with its options."""
    dialect: Literal["chat", "responses", "messages"] | None = None
    """The dialect it speaks: chat, responses or messages. By default the first dialect of its adapter."""
    base_url: str = ""
    """Its address, including the version: https://host/v1. Not needed for litellm, which knows its providers' addresses."""
    upstream_transport: Literal["http", "websocket"] = "http"
    """`http`: one POST per request. `websocket`: one open socket per session, over which a request sends only what is new. Only
    with dialect: responses and adapter: openai_http. A target that refuses the socket is served over HTTP."""
    model: str = Field(default="", max_length=200)
    """The provider's name for it. By default the target's name. For litellm, with the provider: gemini/gemini-3.5-flash."""
    api_key: str | None = None
    """Its API key as env:NAME, read from the environment or from .env next to the config. Leave it out for a server without
    keys. `caller` passes on the caller's own key, to this target only. Spaces and line breaks around the value are ignored."""
    headers: dict[str, ExtraValue] = Field(default_factory=dict, max_length=50)
    """Headers sent with every request to it, for gateways that need them: {x-portkey-provider: openai}. A value may be env:NAME
    or Bearer env:NAME, and is then read like api_key."""
    query: dict[str, ExtraValue] = Field(default_factory=dict, max_length=50)
    """Query parameters sent with every request to it: {api-version: 2024-10-21}. A value may be env:NAME. Not for litellm."""
    window_tokens: int = Field(default=128_000, ge=1_000, le=100_000_000)
    """Its context window. When absent, it is looked up in litellm's table of models, if litellm is installed and knows the
    model."""
    accepts: tuple[Feature, ...] = (
        Feature.TEXT,
        Feature.TOOLS,
        Feature.CUSTOM_TOOLS,
        Feature.JSON_SCHEMA,
        Feature.REASONING,
    )
    """What it accepts: text, tools, images, files, json_schema, custom_tools, reasoning, completions. Looked up like
    window_tokens when absent. `cache_control` is for a gateway that speaks chat in front of Claude and understands cache marks,
    such as a LiteLLM proxy: prompts are then cached. Targets at OpenRouter and with adapter: litellm do not need it."""
    typical: TypicalSettings = TypicalSettings()
    """Its usual speed."""
    price: PriceSettings | None = None
    """What it costs. Looked up like window_tokens when absent."""
    quota: QuotaSettings | None = None
    """What its provider allows."""
    effort: dict[str, str] = Field(default_factory=dict)
    """Its values for reasoning effort, by the caller's value: {xhigh: high}. Other values are passed on unchanged."""
    timeouts: TimeoutSettings = TimeoutSettings()
    """How long to wait for it."""
    tls: TlsSettings | None = None
    """Its certificate authority, and a client certificate."""
    options: dict[str, object] | None = None
    """The settings of its adapter, listed below for each adapter."""
    simulated: dict[str, object] | None = None
    """Another name for options, for adapter: simulated only."""

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError("must be 1 to 64 letters, digits, dots, hyphens or underscores, a letter or digit first")
        return value

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        if "?" in value or "#" in value or "@" in value:
            raise ValueError("must not contain a query, a fragment or credentials; put a query in query, the key in api_key")
        if value and (problem := find_address_fault(value)):
            raise ValueError(problem)
        return value

    @field_validator("api_key")
    @classmethod
    def _fits_a_header(cls, value: str | None) -> str | None:
        if value is not None and (value != value.strip() or not fits_header(value)):
            raise ValueError("must not contain line breaks, spaces around it, or non-ASCII characters")
        return value


class TierSettings(Settings):
    """A tier: its targets, preferred first."""

    targets: tuple[TargetSettings, ...] = Field(min_length=1, max_length=100)
    """The models of this tier."""
    instructions: str = Field(default="", max_length=20_000)
    """Text added at the end of the system prompt for turns on this tier. Off by default."""


class TiersSettings(Settings):
    """The two tiers."""

    fast: TierSettings
    """For quick edits."""
    deep: TierSettings
    """For long tasks."""


class TurnSizeSettings(Settings):
    """What a turn of one kind takes."""

    calls: float = Field(ge=1, le=1_000)
    """Calls to the model."""
    output_tokens: float = Field(ge=1, le=1_000_000)
    """Tokens that the model writes."""


class DecisionSettings(Settings):
    """The economics of the choice."""

    value_of_time_usd_per_hour: float = Field(default=60.0, ge=0, le=10_000)
    """What an hour of waiting costs."""
    hop_seconds: float = Field(default=1.0, ge=0, le=600)
    """What leaving the session's tier costs, in addition to cold caches."""
    quick: TurnSizeSettings = TurnSizeSettings(calls=2, output_tokens=400)
    """The expected size of a quick edit."""
    long: TurnSizeSettings = TurnSizeSettings(calls=26, output_tokens=9_000)
    """The expected size of a long task."""
    base_rate: float = Field(default=0.5, gt=0.001, lt=0.999)
    """The share of long tasks among all turns, before anything is known about a turn. `tandem tune` fits it."""
    personal_log_odds: float = Field(default=0.0, ge=-3.0, le=3.0)
    """Your own offset, added to each of your turns: positive leans to deep, negative to fast. `tandem tune` fits it."""
    fitted_to: str = ""
    """The weights that base_rate and personal_log_odds were fitted to. With other weights, neither is applied, and `tandem
    check` warns. `tandem tune` writes it."""


class SecondOpinionSettings(Settings):
    """In doubt, ask a target whether a turn is quick or long. It then receives up to 900 characters of what people typed."""

    target: str
    """The target that is asked: the name of one under `tiers`, with a key of its own. A small, quick model is enough."""
    max_wait_seconds: float = Field(default=0.4, gt=0, le=10)
    """How long a turn may wait for the answer. A later answer is ignored."""


class LimitsSettings(Settings):
    """Limits on callers, requests and answers."""

    header_timeout_seconds: Seconds = 10.0
    """For a request's headers to arrive."""
    body_timeout_seconds: Seconds = 30.0
    """For a request's body to arrive, plus the time that its size allows."""
    min_body_bytes_per_second: int = Field(default=8_192, ge=1)
    """A body that arrives more slowly than this is refused."""
    connect_timeout_seconds: Seconds = 5.0
    """To open a connection to a target."""
    first_byte_timeout_seconds: Seconds = 600.0
    """For the first byte of a streamed answer."""
    stall_timeout_seconds: Seconds = 300.0
    """Between two pieces of a streamed answer."""
    write_idle_timeout_seconds: Seconds = 60.0
    """How long to wait for a caller that has stopped reading."""
    deadline_seconds: Seconds = 3_600.0
    """For a whole request."""
    drain_seconds: Seconds = 30.0
    """For running requests to finish when the router is shut down."""
    max_body_bytes: int = Field(default=20_971_520, ge=1_024)
    """A larger request is refused."""
    max_headers: int = Field(default=100, ge=10)
    """More headers are refused."""
    max_header_bytes: int = Field(default=32_768, ge=1_024)
    """Larger headers are refused."""
    max_in_flight: int = Field(default=1_024, ge=1)
    """Concurrent requests; more are refused with 503 and `retry-after`. A waiting request takes about 23 KB and two file
    handles; `tandem serve` raises its limit of handles as far as the system allows."""
    max_sockets: int = Field(default=1_000, ge=0)
    """Concurrent WebSockets; more are refused with 426, and clients fall back to HTTP. 0 allows none."""
    max_connections_per_address: int = Field(default=256, ge=1)
    """Concurrent connections from one IPv4 address or IPv6 /64 network, WebSockets included; more are closed at once, before
    anything is read. Raise it behind a proxy, from whose one address all callers come."""
    max_memory_mb: int | None = Field(default=None, ge=100)
    """While the router uses more memory than this, after giving back what is free, new requests are refused with 503 and
    `retry-after`, until it is below 90 % of it. Running requests go on. Off by default; the router alone takes 60 to 100 MB."""
    max_response_bytes: int = Field(default=67_108_864, ge=1_024)
    """The largest answer that is not streamed; a larger one fails."""


class LedgerSettings(Settings):
    """The record of requests."""

    path: str | None = "tandem.db"
    """The SQLite file, relative to the config file. Empty or null: no record is kept."""
    keep_text: bool = False
    """Whether prompts and answers are kept. Off: the ledger holds no text, but see `keep_places`."""
    keep_places: bool = True
    """Whether hashes of words are kept: of the newest 100 turns for a day, and of turns marked with `tandem wrong`. Marks teach
    from them. Anyone with the file and a word list can recover the words. Off: marks teach nothing."""
    keep_days: int = Field(default=31, ge=1, le=3_650)
    """Older entries are deleted. A monthly budget needs 31."""


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
    """The keys that callers need. Absent: nobody needs one, and the router listens on loopback only."""
    budgets: BudgetsSettings = BudgetsSettings()
    """How the budgets of keys are counted."""
    preference: Preference = Preference.BALANCED
    """How much a wrong first answer from fast costs. `speed`: little, so anything that could be quick goes to fast. `balanced`:
    more, so what is probably quick does. `quality`: a lot, so only what is clearly quick does."""
    spill_over: bool = True
    """Whether a failed attempt may go to the other tier."""
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
    with the target's key, and recorded. A route that is not listed here answers 404. Empty by default."""
    decision: DecisionSettings = DecisionSettings()
    """The economics of the choice."""
    second_opinion: SecondOpinionSettings | None = None
    """Which target is asked about turns that are in doubt. Off by default."""
    rules: tuple[dict[str, object], ...] = Field(default=(), max_length=1_000)
    """Your own rules, applied where a turn begins: {when: {words, client, turn, has, more_than_tokens}, tier: fast} or
    lean: 2.0."""
    policies: tuple[PolicyEntry, ...] = Field(
        default=(
            "override",
            "rules",
            "capability",
            "window",
            "side_request",
            "effort",
            "learned",
            "boundary",
            "trajectory",
        ),
        max_length=100,
    )
    """The policies in use. Their order does not matter."""
    limits: LimitsSettings = LimitsSettings()
    """Limits on callers, requests and answers."""
    ledger: LedgerSettings = LedgerSettings()
    """The record of requests."""
    store: StoreSettings = StoreSettings()
    """The responses that later requests continue from."""

    @field_validator("keys", mode="before")
    @classmethod
    def _is_never_open(cls, value: object) -> object:
        """`keys:` with nothing after it asks for keys, as it reads."""
        return {} if value is None else value
