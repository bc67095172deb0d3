"""Entries of `policies:` that name a file or an installed package of the operator's own."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from msgspec import Struct
from pydantic import Field, model_validator

from router.config.faults import Fault, check_block
from router.config.reading import expand
from router.config.settings import Settings
from router.contract.opinions import Policy, PolicyConfig


class PolicyUnusable(Exception):
    """A policy that cannot be used. The message says why."""


class OwnPolicySettings(Settings):
    """One policy of your own."""

    file: str = ""
    """A Python file with the policy, relative to the config."""
    package: str = ""
    """An installed module with the policy, instead of a file."""
    settings: Mapping[str, Any] = Field(default_factory=dict)
    """What the policy's own `Config` takes."""

    @model_validator(mode="after")
    def _needs_one_source(self) -> Self:
        if bool(self.file) is bool(self.package):
            raise ValueError("needs a file or a package, and not both")
        return self


class OwnPolicy(Struct, frozen=True):
    """A policy of the operator's own. One that cannot be used has no `kind`, and `trouble` says why."""

    name: str
    source: str
    kind: type[Policy] | None = None
    settings: PolicyConfig | None = None
    trouble: str = ""
    digest: str = ""
    """Which text of the file it is."""


def is_own(entry: object) -> bool:
    return isinstance(entry, Mapping) and not entry.keys().isdisjoint(("file", "package"))


def open_own(
    entries: Iterable[tuple[str, object]], folder: Path, open_policy: Callable[..., type[Policy]], faults: list[Fault]
) -> tuple[OwnPolicy, ...]:
    """Open each entry, given with its path in the config. What is wrong with its settings is a fault of the config."""
    found: dict[str, OwnPolicy] = {}
    for path, entry in entries:
        block = check_block(OwnPolicySettings, entry, path, faults)
        if not isinstance(block, OwnPolicySettings):
            continue
        own = _open(block, path, folder, open_policy, faults)
        if own.name in found:
            faults.append(Fault(path, f'duplicate policy "{own.name}"'))
        found[own.name] = own
    return tuple(found.values())


def _open(
    block: OwnPolicySettings, path: str, folder: Path, open_policy: Callable[..., type[Policy]], faults: list[Fault]
) -> OwnPolicy:
    source = block.package or str(folder / expand(block.file))
    try:
        kind = open_policy(source, is_package=bool(block.package))
        digest = hashlib.blake2b(Path(source).read_bytes(), digest_size=6).hexdigest() if block.file else ""
    except (PolicyUnusable, OSError) as error:
        name = block.package.rpartition(".")[2] or Path(source).stem
        return OwnPolicy(name, block.file or source, trouble=str(error))
    settings = check_block(kind.Config, block.settings, f"{path}.settings", faults)
    return OwnPolicy(
        kind.name, block.file or source, kind, settings if isinstance(settings, PolicyConfig) else None, "", digest
    )
