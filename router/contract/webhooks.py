"""Webhooks for ended background jobs. They come from the config alone, never from a request."""

from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic.json_schema import WithJsonSchema

from router.contract.block import Block
from router.contract.secret import Secret
from router.contract.words import Word


class JobEvent(Word):
    """Events, by OpenAI's names."""

    COMPLETED = "response.completed"
    FAILED = "response.failed"
    INCOMPLETE = "response.incomplete"
    CANCELLED = "response.cancelled"


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) else value


_ONE_OR_MORE = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}


class JobWebhook(Block, frozen=True):
    """An address that gets an event when a background job ends."""

    url: str
    """Where events are sent, without redirects."""
    secret: Annotated[
        tuple[Secret, ...], Field(min_length=1, max_length=4), BeforeValidator(_listed), WithJsonSchema(_ONE_OR_MORE)
    ]
    """Signs events, as env:NAME (whsec_…: base64). While it changes, a list."""
    events: Annotated[tuple[JobEvent, ...], Field(min_length=1)] = tuple(JobEvent)
    """Which ends are sent."""
    allow_private: bool = False
    """May be on this machine or a private network."""
