"""The settings of the tiers and their targets."""

import re
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, field_validator

from router.config.settings import ExtraValue, Settings, find_address_fault, fits_header
from router.contract.block import Stated
from router.contract.plan_use import UseUpTo
from router.contract.relay import Tls
from router.contract.target import Price, Quota, Speed, Timeouts
from router.contract.words import Feature, Vendor

OPTIONS = "options"
OPTIONS_ALIAS = "simulated"
"""An older name for `options`, for the adapter of that name."""
_PRESET = "preset:"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


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
    accepts_keys_of: tuple[Vendor, ...] = ()
    """Whose keys and logins a target with api_key: caller takes: anthropic, openai, chatgpt. Callers' credentials of another
    vendor never go there. Known from a vendor's own address, and from the adapter at an address of your machine or network.
    Name it for a gateway."""
    billing: Literal["tokens", "plan"] = "tokens"
    """`plan`: the person's own plan pays, by the login that their client sends (Claude Code, Codex). Requests and answers then
    pass unchanged, in the client's own dialect only. Needs api_key: caller."""
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
    typical: Annotated[dict[str, float], Stated(Speed)] = Field(default_factory=dict)
    """Its usual speed, expected before it has been measured and after a long time without use."""
    price: Price | None = None
    """What it costs. Looked up like window_tokens when absent. With billing: plan it is the list price: tokens cost nothing,
    and this is what they are worth."""
    use_up_to: UseUpTo | None = None
    """With billing: plan, how much of a person's windows Tandem uses while another target can serve, in per cent:
    {five_hours: 90, week: 95}. By default all of it."""
    quota: Quota | None = None
    """What its provider allows."""
    effort: dict[str, str] = Field(default_factory=dict)
    """Its values for reasoning effort, by the caller's value: {xhigh: high}. Other values are passed on unchanged."""
    timeouts: Annotated[dict[str, float], Stated(Timeouts)] = Field(default_factory=dict)
    """How long to wait for it. What is absent comes from `limits`."""
    tls: Tls | None = None
    """Its certificate authority, and a client certificate."""
    options: dict[str, object] | None = None
    """The settings of its adapter, listed below for each adapter."""
    simulated: dict[str, object] | None = None
    """Another name for options, for adapter: simulated only."""

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            letters = "1 to 64 letters from a to z, digits, dots, hyphens or underscores, a letter or digit first"
            raise ValueError(f"must be {letters}: it is sent in headers")
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


def find_instructions(text: str) -> str:
    """The text itself, or that of `preset:NAME`. Raises `ValueError` for an unknown name."""
    if not text.startswith(_PRESET):
        return text
    presets = yaml.safe_load(Path(__file__).with_name("instructions.yaml").read_text(encoding="utf-8"))
    name = text.removeprefix(_PRESET).strip()
    if name not in presets:
        raise ValueError(f'unknown preset "{name[:40]}". Known: {", ".join(f"{_PRESET}{known}" for known in presets)}')
    return str(presets[name])


class TierSettings(Settings):
    """A tier: its targets, preferred first."""

    targets: tuple[TargetSettings, ...] = Field(min_length=1, max_length=100)
    """The models of this tier."""
    instructions: str = Field(default="", max_length=20_000)
    """Text added at the end of the system prompt for turns on this tier, except on targets with billing: plan. Off by
    default. preset:minimal-edits is a text of Tandem's own that asks for the smallest change; tandem check shows it."""

    @field_validator("instructions")
    @classmethod
    def _is_a_known_preset(cls, value: str) -> str:
        find_instructions(value)
        return value


class TiersSettings(Settings):
    """The two tiers."""

    fast: TierSettings
    """For quick edits."""
    deep: TierSettings
    """For long tasks."""
