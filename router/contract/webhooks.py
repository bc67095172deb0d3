"""Webhooks for ended background jobs. They come from the config alone, never from a request."""

from typing import Annotated

from pydantic import Field

from router.contract.block import Block
from router.contract.secret import Secret
from router.contract.words import Word


class JobEvent(Word):
    """Events, by OpenAI's names."""

    COMPLETED = "response.completed"
    FAILED = "response.failed"
    INCOMPLETE = "response.incomplete"
    CANCELLED = "response.cancelled"


class JobWebhook(Block, frozen=True):
    """An address that gets an event when a background job ends."""

    url: str
    """Where events are sent, by POST. No redirect is followed."""
    secret: Secret
    """What events are signed with, always as env:NAME. A value that begins with whsec_ is base64, as in OpenAI's SDKs."""
    events: Annotated[tuple[JobEvent, ...], Field(min_length=1)] = tuple(JobEvent)
    """Which ends are sent: response.completed, response.failed, response.incomplete, response.cancelled. By default, all."""
    allow_private: bool = False
    """Whether the address may be in a private network or on this machine."""
