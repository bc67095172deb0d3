"""A new config for a running house: loaded and checked whole in a thread, then swapped in, or nothing is changed."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from msgspec import Struct, structs

from router.config.changes import Changes, find_applied, find_changes, find_key_changes
from router.config.faults import ConfigError
from router.config.key_file import check_blank
from router.config.load import LoadedConfig
from router.contract.keys import KeyRing
from router.contract.relay import Used, Warmable
from router.contract.request import JsonObject
from router.house import House
from router.loop.tasks import spawn
from router.plan import Plan
from router.telemetry import events

Check = Callable[[LoadedConfig], None]
Apply = Callable[[LoadedConfig], None]


class Reloaded(Struct, frozen=True):
    """What a reload did."""

    changes: Changes
    before: str
    """The config's fingerprint; `after` is the new one's."""
    after: str
    warnings: tuple[str, ...] = ()

    def as_json(self) -> JsonObject:
        """The answer to whoever asked for it."""
        return {
            "changed": list(self.changes.applied),
            "needs_restart": list(self.changes.needs_restart),
            "warnings": list(self.warnings),
            "fingerprint": {"before": self.before, "after": self.after},
        }


@dataclass(slots=True)
class Reloader:
    """Reloads, one at a time. Sessions, figures and queues stay, and requests under way keep the plan that they began with."""

    house: House
    loaded: LoadedConfig
    """The config in use, with the keys in use."""
    load: Callable[[], LoadedConfig]
    """Reads and checks the config again. Runs in a thread. Raises `ConfigError` with every fault."""
    build: Callable[[LoadedConfig], Plan]
    checks: list[Check] = field(default_factory=list)
    """What else must be right before anything is changed. Each runs in a thread, and raises `ConfigError`."""
    applies: list[Apply] = field(default_factory=list)
    """What else takes the new config, once the plan was swapped. Each runs on the loop, and must not raise."""
    revoked: frozenset[bytes] = frozenset()
    """Keys that do not work though the key file has them, by the digests of their secrets: another router revoked them."""
    _refreshed: tuple[str, ...] = ()
    """What changed since the last reload and is in use already."""
    _started: LoadedConfig = field(init=False)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _waiting: "asyncio.Task[Reloaded] | None" = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._started = self.loaded

    async def reload(self) -> Reloaded:
        """Take the config as it is now. Raises `ConfigError`, and then nothing has changed.

        Whoever asks while a reload waits for its turn shares it: the file is read after all of them asked. A caller that leaves
        does not stop it.
        """
        if self._waiting is None:
            self._waiting = spawn(self._run(), name="reload")
        return await asyncio.shield(self._waiting)

    async def answer(self) -> JsonObject:
        """The JSON that a page answers with."""
        return (await self.reload()).as_json()

    async def _run(self) -> Reloaded:
        async with self._turn:
            self._waiting = None
            try:
                return await self._reload()
            except ConfigError as error:
                events.config_kept(source=error.source, faults=tuple(map(str, error.faults)))
                raise

    async def _reload(self) -> Reloaded:
        loaded = await asyncio.to_thread(self._load_and_check)
        before = self.loaded
        if (loaded.keys is None) is not (before.keys is None):
            # Whether callers need keys is fixed at the start: the keys in use stay, and the change is named.
            loaded = replace(loaded, keys=before.keys)
        changes = find_changes(self._started, before, loaded, self.house.plan.rules.weights_fingerprint)
        already, self._refreshed = self._refreshed, ()
        changes = structs.replace(changes, applied=(*(f"{line}, in use already" for line in already), *changes.applied))
        self._use(loaded)
        done = Reloaded(changes, before.fingerprint, loaded.fingerprint, loaded.warnings)
        events.config_reloaded(
            changed=changes.applied, needs_restart=changes.needs_restart, before=done.before, fingerprint=done.after
        )
        for warning in loaded.warnings:
            events.config_warned(warning=warning)
        return done

    def _load_and_check(self) -> LoadedConfig:
        return self._checked(self.load())

    def _checked(self, loaded: LoadedConfig) -> LoadedConfig:
        check_blank(self.loaded.keys, loaded.keys, str(loaded.keys_path))
        for check in self.checks:
            check(loaded)
        if self.revoked and loaded.keys is not None:
            return replace(loaded, keys=loaded.keys.without(self.revoked))
        return loaded

    async def take_keys(self, read: Callable[[], KeyRing]) -> tuple[str, ...]:
        """Take other keys, with the rest of the config as it was loaded. Returns what changed, which may be nothing.

        `read` runs in a thread, as do the checks. Raises what they raise, and then nothing has changed.
        """
        async with self._turn:
            before, loaded = self.loaded.keys, await asyncio.to_thread(self._with_keys, read)
            changed = find_key_changes(before, loaded.keys)
            if changed:
                self._swap(loaded)
            return changed

    async def refresh(self) -> None:
        """Take new secrets and a new certificate, with the rest of the config as it was loaded; or nothing if one is faulty."""
        async with self._turn:
            try:
                loaded = await asyncio.to_thread(lambda: self._checked(self.loaded.refresh()))
            except ConfigError as error:
                events.config_kept(source=error.source, faults=tuple(map(str, error.faults)))
                return
            if changed := find_applied(self.loaded, loaded):
                self._use(loaded)
                self._refreshed += changed
                events.secrets_reloaded(changed=changed)

    def _with_keys(self, read: Callable[[], KeyRing]) -> LoadedConfig:
        return self._checked(replace(self.loaded, keys=read()))

    def _use(self, loaded: LoadedConfig) -> None:
        self._swap(loaded)
        for apply in self.applies:
            apply(loaded)

    def _swap(self, loaded: LoadedConfig) -> None:
        """Build the plan and use it. Adapters of new targets load what is costly to load, as at the start."""
        plan = self.build(loaded)
        self.house.swap(plan)
        self.loaded = loaded
        self.house.state.upstream.keep_only(_used_by(loaded))
        for adapter in plan.dispatcher.adapters:
            if isinstance(adapter, Warmable):
                adapter.warm()


def _used_by(loaded: LoadedConfig) -> Iterable[Used]:
    ends = ((plan.target.name, plan.endpoint) for plan in loaded.targets)
    return [Used(name, end.base_url, end.tls) for name, end in ends if end.base_url]
