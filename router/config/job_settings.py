"""What the config says of background jobs: who learns of their end, and what else can do them."""

import shlex
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from router.config.settings import Settings
from router.config.values import find_address_fault
from router.contract.webhooks import JobEvent


class WebhookSettings(Settings):
    """One address that is sent an event when a background job ends."""

    url: str
    """Where events are sent, by POST. No redirect is followed."""
    secret: str
    """What events are signed with, always as env:NAME. A value that begins with whsec_ is base64, as in OpenAI's SDKs."""
    events: tuple[JobEvent, ...] = Field(default=tuple(JobEvent), min_length=1)
    """Which ends are sent: response.completed, response.failed, response.incomplete, response.cancelled. By default, all."""
    allow_private: bool = False
    """Whether the address may be in a private network or on this machine."""

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError("must begin with https:// or http://")
        if problem := find_address_fault(value):
            raise ValueError(problem)
        if "@" in urlsplit(value).netloc:
            raise ValueError("must not contain credentials; the signature shows who sent an event")
        return value


class DelegationSettings(Settings):
    """The coding agent that works on tasks that need one."""

    runner: str | None = None
    """The command of a coding agent, such as codex exec --sandbox workspace-write. `tandem delegate --agent` runs it in a
    new git worktree, with the task as its last argument and without a shell. Absent: nobody can do so."""

    @model_validator(mode="before")
    @classmethod
    def _without_removed(cls, content: object) -> object:
        """Accept a config that still has `note`: `router/config/replaced.py` reports that it does nothing."""
        return {name: value for name, value in content.items() if name != "note"} if isinstance(content, dict) else content

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
