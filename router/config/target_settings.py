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

_PRESET = "preset:"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class TargetSettings(Settings):
    """One model at one address."""

    name: str
    """Its name in Tandem, also as a model."""
    adapter: str = "openai_http"
    """How it is reached."""
    dialect: Literal["chat", "responses", "messages"] | None = None
    """chat, responses or messages. Default: by its adapter."""
    base_url: str = ""
    """Its address, such as `https://host/v1`. Optional for litellm."""
    upstream_transport: Literal["http", "websocket"] = "http"
    """`websocket`: one per session, for `dialect: responses` with `openai_http`."""
    model: str = Field(default="", max_length=200)
    """Its provider's name for it. Default: `name`. For litellm: gemini/gemini-3.5-flash."""
    api_key: str | None = None
    """As env:NAME, also from .env. `caller`: the caller's own key."""
    accepts_keys_of: tuple[Vendor, ...] = ()
    """With `api_key: caller`, at a gateway: anthropic, openai, chatgpt."""
    billing: Literal["tokens", "plan"] = "tokens"
    """`plan`: the caller's own plan pays. Needs `api_key: caller`."""
    headers: dict[str, ExtraValue] = Field(default_factory=dict, max_length=50)
    """Extra ones, also as env:NAME or Bearer env:NAME."""
    query: dict[str, ExtraValue] = Field(default_factory=dict, max_length=50)
    """For HTTP adapters only."""
    window_tokens: int = Field(default=128_000, ge=1_000, le=100_000_000)
    """Context window, else looked up in litellm's table."""
    accepts: tuple[Feature, ...] = (
        Feature.TEXT,
        Feature.TOOLS,
        Feature.CUSTOM_TOOLS,
        Feature.JSON_SCHEMA,
        Feature.REASONING,
    )
    """Also: images, files (both on plans), completions, cache_control. Looked up likewise."""
    typical: Annotated[dict[str, float], Stated(Speed)] = Field(default_factory=dict)
    """Its usual speed, until it is measured; simulated: by its options."""
    price: Price | None = None
    """USD per million tokens; on plans, the list price. Looked up likewise."""
    use_up_to: UseUpTo | None = None
    """Per cent of a plan's windows to use while others can serve."""
    quota: Quota | None = None
    """What its provider allows."""
    effort: dict[str, str] = Field(default_factory=dict)
    """Its reasoning efforts, by the caller's: {xhigh: high}."""
    timeouts: Annotated[dict[str, float], Stated(Timeouts)] = Field(default_factory=dict)
    """Waits for it, instead of `limits`."""
    tls: Tls | None = None
    """Certificates."""
    options: dict[str, object] | None = None
    """Settings of its adapter."""

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
    """Added to the system prompt, except on plans. `preset:minimal-edits`: the smallest change."""

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
    """For long tasks, with the same settings."""
