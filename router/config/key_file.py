"""`keys.yaml`: callers, their rights, and digests of their keys. Written by `tandem keys` or by hand."""

import os
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, ValidationError, field_validator

from router.config.faults import ConfigError, Fault, as_fault
from router.config.parsing import parse
from router.config.reading import read_config
from router.config.settings import Settings
from router.contract.caller import LOCAL, Caller
from router.contract.keys import OWN_ID, Key, KeyRing
from router.contract.rights import Rights
from router.contract.words import Tier

HOW_TO_MAKE = "tandem keys add NAME makes a key, and the file with it"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_ID = re.compile(r"[0-9a-f]{8}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_OTHERS, _GROUP = 0o007, 0o070
_MAX_ENTRIES = 50_000
"""1,000 callers with two keys and every right written out have 25,000."""

Limit = Annotated[int, Field(gt=0)]
Dollars = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class KeySettings(Settings):
    """One key."""

    id: str
    """Eight hex digits in its middle."""
    sha256: str
    """Digest of its last part, in hex."""
    created: datetime
    """When it was made."""
    expires: datetime | None = None
    """When it stops working; null: never."""

    @field_validator("id")
    @classmethod
    def _is_an_id(cls, value: str) -> str:
        if not _ID.fullmatch(value) or value == OWN_ID:
            raise ValueError("must be eight hex digits, as tandem keys add writes them")
        return value

    @field_validator("sha256")
    @classmethod
    def _is_a_digest(cls, value: str) -> str:
        if not _DIGEST.fullmatch(value):
            raise ValueError("must be 64 hex digits, as tandem keys add writes them. The key itself must not be here")
        return value

    @field_validator("created", "expires")
    @classmethod
    def _is_in_utc(cls, value: datetime | None) -> datetime | None:
        """Times without a zone are UTC."""
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


class CallerSettings(Settings):
    """What one caller may do, and its keys. After a rotation it has two for a while."""

    tiers: tuple[Tier, ...] = tuple(Tier)
    """Tiers that may serve it."""
    may_force: tuple[Tier, ...] = (Tier.FAST,)
    """Tiers it may ask for."""
    admin: bool = False
    """May see, mark and cancel others' work, reload, read `/metrics`, use files and batches."""
    requests_per_minute: Limit | None = None
    """More get 429 `rate_limited`."""
    tokens_per_minute: Limit | None = None
    """Prompts and answers together."""
    in_flight: Limit | None = None
    """Requests at once."""
    may_delegate: bool = True
    """May have requests served in the background."""
    may_combine: bool = True
    """May have both tiers work on one task."""
    jobs_in_flight: Limit | None = None
    """Background jobs, waiting or running."""
    daily_usd: Dollars | None = None
    """Spending a day. All its targets need a price."""
    monthly_usd: Dollars | None = None
    """Spending a month."""
    keys: tuple[KeySettings, ...] = ()
    """Its keys."""

    @field_validator("keys", mode="before")
    @classmethod
    def _may_be_empty(cls, value: object) -> object:
        return () if value is None else value

    @field_validator("tiers")
    @classmethod
    def _has_a_tier(cls, value: tuple[Tier, ...]) -> tuple[Tier, ...]:
        if not value:
            raise ValueError("must not be empty: a caller without a tier can do nothing. Remove its keys instead")
        return value

    @property
    def rights(self) -> Rights:
        return Rights(
            tiers=frozenset(self.tiers),
            may_force=frozenset(self.may_force),
            is_admin=self.admin,
            requests_per_minute=self.requests_per_minute,
            tokens_per_minute=self.tokens_per_minute,
            in_flight=self.in_flight,
            may_delegate=self.may_delegate,
            may_combine=self.may_combine,
            jobs_in_flight=self.jobs_in_flight,
            daily_usd=self.daily_usd,
            monthly_usd=self.monthly_usd,
        )


class KeyFile(Settings):
    """Everything in the file."""

    callers: dict[str, CallerSettings] = Field(default_factory=dict)
    """By name. The ledger, budgets and sessions know a caller by this name, whichever of its keys it uses."""

    @field_validator("callers", mode="before")
    @classmethod
    def _may_be_empty(cls, value: object) -> object:
        return {} if value is None else value

    @field_validator("callers")
    @classmethod
    def _has_names(cls, value: dict[str, CallerSettings]) -> dict[str, CallerSettings]:
        for name in value:
            if not _NAME.fullmatch(name) or name == LOCAL.name:
                raise ValueError(f'"{name[:40]}": must be 1 to 64 letters, digits or . _ @ + -, and not "{LOCAL.name}"')
        counted = Counter(key.id for caller in value.values() for key in caller.keys)
        if twice := next((key_id for key_id, count in counted.items() if count > 1), None):
            raise ValueError(f"two keys have the id {twice}")
        return value

    @property
    def ring(self) -> KeyRing:
        keys = (
            Key(key.id, Caller(name), bytes.fromhex(key.sha256), key.expires.timestamp() if key.expires is not None else None)
            for name, caller in self.callers.items()
            for key in caller.keys
        )
        rights = {name: caller.rights for name, caller in self.callers.items()}
        return KeyRing(keys, rights, is_blank=not self.model_fields_set)


def read_key_file(path: Path) -> KeyFile:
    """Raises `ConfigError`, also if others can read it."""
    if not path.exists():
        raise ConfigError(str(path), [Fault("file", "does not exist", HOW_TO_MAKE)])
    if path.is_file() and may_others_read(path):
        raise ConfigError(str(path), [Fault("file", "other users of this machine may read it", f"chmod 600 {path}")])
    text, source, _ = read_config(path)
    return parse_keys(text, source)


def check_blank(before: KeyRing | None, after: KeyRing | None, source: str) -> None:
    """Refuse a file that was emptied, as it is for a moment while it is saved in place. Raises `ConfigError`."""
    if after is not None and after.is_blank and before is not None and not before.is_blank:
        hint = "callers: {} revokes all keys; save it by renaming another file, or with tandem keys"
        raise ConfigError(source, [Fault("file", "is empty, which changes nothing while the router runs", hint)])


def parse_keys(text: str, source: str) -> KeyFile:
    """Raises `ConfigError`."""
    has_settings = any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())
    try:
        return KeyFile.model_validate(parse(text, source, _MAX_ENTRIES) if has_settings else {})
    except ValidationError as error:
        raise ConfigError(source, [as_fault(entry, model=KeyFile) for entry in error.errors()]) from error


def write_keys(file: KeyFile) -> str:
    """In one form: a line for each setting that is not the default, and for each key."""
    content = {"callers": {}} | file.model_dump(mode="json", exclude_defaults=True)
    return yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=1_000)


def may_others_read(path: Path) -> bool:
    """A group may read a mounted secret that belongs to another user."""
    if os.name != "posix":
        return False
    found = path.stat()
    return bool(found.st_mode & (_OTHERS | _GROUP if found.st_uid == os.geteuid() else _OTHERS))
