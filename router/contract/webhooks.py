"""Addresses that are sent an event when a background job ends. They come from the config alone, never from a request."""

from msgspec import Struct

from router.contract.secret import Secret
from router.contract.words import Word


class JobEvent(Word):
    """What a webhook can be sent, by OpenAI's names."""

    COMPLETED = "response.completed"
    FAILED = "response.failed"
    INCOMPLETE = "response.incomplete"
    CANCELLED = "response.cancelled"


class JobWebhook(Struct, frozen=True):
    """One address, and what it is sent."""

    url: str
    secret: Secret
    """Signs what is sent, so that the receiver knows who sent it."""
    events: frozenset[JobEvent] = frozenset(JobEvent)
    allow_private: bool = False
    """Whether it may be in a private network, or on this machine."""
