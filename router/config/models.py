"""The settings, as they stand in `config.yaml`. Every field says what it does; unknown keys are refused."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from router.contract.words import Feature, Preference

Seconds = Annotated[float, Field(gt=0, le=86_400)]


class Settings(BaseModel):
    """A block of settings: frozen, and without room for typos."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ServerSettings(Settings):
    """Where the router listens."""

    host: str = "127.0.0.1"
    """The address to bind. Only loopback is allowed while no keys are configured."""
    port: int = Field(default=4000, ge=0, le=65_535)
    """The port to bind; 0 picks a free one."""


class TypicalSettings(Settings):
    """What is expected of a target before it was measured, and what its live figures fall back to."""

    ttft_seconds: Annotated[float, Field(ge=0, le=600)] | None = None
    """Time to first token for a short prompt. By default 0.3 on fast, 1.2 on deep."""
    tokens_per_second: Annotated[float, Field(gt=0, le=100_000)] | None = None
    """How fast it writes. By default 600 on fast, 70 on deep."""
    prefill_tokens_per_second: Annotated[float, Field(gt=0)] | None = None
    """How fast it reads a prompt that is not cached. By default 20000 on fast, 10000 on deep."""


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


class QuotaSettings(Settings):
    """Limits of the provider's. Read, and not yet enforced: `tandem check` says so."""

    requests_per_minute: int | None = Field(default=None, gt=0)
    """Requests that the provider allows in a minute."""
    tokens_per_minute: int | None = Field(default=None, gt=0)
    """Tokens that the provider allows in a minute."""
    in_flight: int | None = Field(default=None, gt=0)
    """Requests that the provider allows at once."""
    max_wait_seconds: float | None = Field(default=None, ge=0)
    """How long a request may wait for its turn."""


class TimeoutSettings(Settings):
    """How long a call to this target may wait. What is absent comes from `limits`."""

    connect_seconds: Seconds | None = None
    """To open a connection."""
    first_byte_seconds: Seconds | None = None
    """From the request to the first byte of a streamed answer."""
    stall_seconds: Seconds | None = None
    """Between two pieces of a streamed answer."""


class TlsSettings(Settings):
    """How this target's TLS differs from the machine's default."""

    ca_file: str | None = None
    """A file of authorities to trust, in PEM. Relative to the file that names it."""
    client_cert: str | None = None
    """Our certificate and key in one PEM file, for a target that asks who we are."""


class TargetSettings(Settings):
    """One model behind one address."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    """Our name for it, shown in headers and pages. Callers may ask for it as a model."""
    adapter: str = "openai_http"
    """How it is reached: openai_http, anthropic_http, litellm or simulated."""
    dialect: Literal["chat", "responses", "messages"] | None = None
    """What it speaks: chat, responses or messages. By default what its adapter speaks first."""
    base_url: str = ""
    """Its address, with the version: https://host/v1. litellm knows its providers' addresses by itself."""
    model: str = Field(default="", max_length=200)
    """The model's name there. By default our own name for it. For litellm with its provider: gemini/gemini-3.5-flash."""
    api_key: str | None = None
    """Its key, as env:NAME. None for a server that asks for none; caller hands on the caller's own, to this target alone."""
    window_tokens: int = Field(default=128_000, ge=1_000, le=100_000_000)
    """Its context window. When absent, what litellm's table of models says, if litellm is installed and knows the model."""
    accepts: tuple[Feature, ...] = (
        Feature.TEXT,
        Feature.TOOLS,
        Feature.CUSTOM_TOOLS,
        Feature.JSON_SCHEMA,
        Feature.REASONING,
    )
    """What it takes: text, tools, images, files, json_schema, custom_tools, reasoning, completions. When absent, as for
    window_tokens."""
    typical: TypicalSettings = TypicalSettings()
    """Its usual speed."""
    price: PriceSettings | None = None
    """What it costs. When absent, as for window_tokens."""
    quota: QuotaSettings | None = None
    """What its provider allows. Read, not yet enforced."""
    effort: dict[str, str] = Field(default_factory=dict)
    """Its words for reasoning effort, by the caller's: {xhigh: high}. Words that are not named go as they came."""
    timeouts: TimeoutSettings = TimeoutSettings()
    """How long to wait for it."""
    tls: TlsSettings | None = None
    """Its own authority, our own certificate."""
    simulated: dict[str, object] = Field(default_factory=dict)
    """How a simulated target behaves: ttft_seconds, tokens_per_second, answer_tokens, faults."""

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        if "?" in value or "#" in value or "@" in value:
            raise ValueError("must hold no query, fragment or credentials; put the key in api_key")
        return value


class TierSettings(Settings):
    """A tier: its targets, the preferred first."""

    targets: tuple[TargetSettings, ...] = Field(min_length=1)
    """The models of this tier."""
    instructions: str = Field(default="", max_length=20_000)
    """Text added at the end of the system prompt for turns on this tier. Off by default."""


class TiersSettings(Settings):
    """The two tiers."""

    fast: TierSettings
    """For quick edits."""
    deep: TierSettings
    """For long tasks."""


class RedoFactors(Settings):
    """How many times a long task costs its deep time, when fast tried it first. One for each preference."""

    speed: float = Field(default=1.5, ge=0, le=100)
    """When speed is preferred."""
    balanced: float = Field(default=3.0, ge=0, le=100)
    """The default."""
    quality: float = Field(default=6.0, ge=0, le=100)
    """When quality is preferred."""


class TurnSizeSettings(Settings):
    """What a turn of one kind takes."""

    calls: float = Field(ge=1, le=1_000)
    """Calls of the model."""
    output_tokens: float = Field(ge=1, le=1_000_000)
    """Tokens that it writes."""


class DecisionSettings(Settings):
    """The economics of the choice."""

    value_of_time_usd_per_hour: float = Field(default=60.0, ge=0, le=10_000)
    """What an hour of waiting costs."""
    redo_factor: RedoFactors = RedoFactors()
    """How much a redo is feared; `preference` picks one."""
    hop_seconds: float = Field(default=1.0, ge=0, le=600)
    """What leaving the session's tier costs beside cold caches."""
    quick: TurnSizeSettings = TurnSizeSettings(calls=2, output_tokens=400)
    """A quick edit."""
    long: TurnSizeSettings = TurnSizeSettings(calls=26, output_tokens=9_000)
    """A long task."""
    base_rate: float = Field(default=0.5, gt=0.001, lt=0.999)
    """The share of long tasks among all turns, before anything is known of one. `tandem tune` fits it."""
    personal_log_odds: float = Field(default=0.0, ge=-3.0, le=3.0)
    """Your own offset, added to every turn of yours: positive leans to deep, negative to fast. `tandem tune` fits it."""
    fitted_to: str = ""
    """The weights that base_rate and personal_log_odds were fitted to. With other weights in use the two are not applied, and
    `tandem check` says so. `tandem tune` writes it."""


class LimitsSettings(Settings):
    """What one caller, request or answer may take."""

    header_timeout_seconds: Seconds = 10.0
    """For a request's headers to arrive."""
    body_timeout_seconds: Seconds = 30.0
    """For a request's body to arrive, beside the time that its size is given."""
    min_body_bytes_per_second: int = Field(default=8_192, ge=1)
    """A body that comes more slowly than this is refused."""
    connect_timeout_seconds: Seconds = 5.0
    """To open a connection to a target."""
    first_byte_timeout_seconds: Seconds = 600.0
    """For the first byte of a streamed answer."""
    stall_timeout_seconds: Seconds = 300.0
    """Between two pieces of a streamed answer."""
    write_idle_timeout_seconds: Seconds = 60.0
    """For a caller that stopped reading."""
    deadline_seconds: Seconds = 3_600.0
    """For a whole request."""
    drain_seconds: Seconds = 30.0
    """For running requests when the router stops."""
    max_body_bytes: int = Field(default=20_971_520, ge=1_024)
    """A larger request is refused."""
    max_headers: int = Field(default=100, ge=10)
    """More headers are refused."""
    max_header_bytes: int = Field(default=32_768, ge=1_024)
    """Larger headers are refused."""
    max_in_flight: int = Field(default=256, ge=1)
    """Requests at once; more are told to come back."""
    max_response_bytes: int = Field(default=67_108_864, ge=1_024)
    """An answer that comes in one piece is cut here."""


class LedgerSettings(Settings):
    """The record of requests."""

    path: str = "tandem.db"
    """The SQLite file. Relative to the file that names it. Empty keeps no record."""
    keep_text: bool = False
    """Whether prompts and answers are kept. Off: no text is ever on disk."""
    keep_days: int = Field(default=30, ge=1, le=3_650)
    """Older entries are deleted."""


class StoreSettings(Settings):
    """The responses that later requests go on from (`previous_response_id`)."""

    path: str | None = None
    """A SQLite file for responses created with an explicit `store: true`, kept for 30 days. Relative to the file that
    names it. Without it every response stays in memory, for an hour at most."""


class Config(Settings):
    """Everything."""

    server: ServerSettings = ServerSettings()
    """Where the router listens."""
    preference: Preference = Preference.BALANCED
    """speed, balanced or quality."""
    spill_over: bool = True
    """May a failed attempt go to the other tier?"""
    in_band_line: bool = True
    """Is a first line `tier: fast`, `tier: deep` or `tier: auto` in a message obeyed, for clients that set no headers?"""
    models: dict[str, str] = Field(default_factory=lambda: {"auto": "auto", "fast": "fast", "deep": "deep"})
    """Model names, and patterns with *, to auto, fast, deep or a target's name. The first pattern that fits counts."""
    tiers: TiersSettings
    """The two tiers and their targets."""
    decision: DecisionSettings = DecisionSettings()
    """The economics of the choice."""
    rules: tuple[dict[str, object], ...] = ()
    """Your own say, read where a turn begins: {when: {words, client, turn, has, more_than_tokens}, tier: fast} or lean: 2.0."""
    policies: tuple[str | dict[str, dict[str, object] | None], ...] = (
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
    """Who is asked. The order is only for reading."""
    limits: LimitsSettings = LimitsSettings()
    """What one caller, request or answer may take."""
    ledger: LedgerSettings = LedgerSettings()
    """The record of requests."""
    store: StoreSettings = StoreSettings()
    """The responses that later requests go on from."""
