"""What `tandem check` finds on this machine, offline, and how it is printed."""

import platform
import shutil
import sys
import sysconfig
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from textwrap import wrap

from router.cli.common import command_name, init_command, path_of, readable, url_in_use, usual_url
from router.cli.figures import moment, plural
from router.cli.refused import explain
from router.cli.routers import all_routers, find_at, is_tandem
from router.cli.setup.facts import open_store, read_facts, shell_here
from router.cli.tables import columns_here
from router.config.certificate import read_certificate
from router.config.faults import Fault
from router.config.folders import NoHome, state_folder
from router.config.load import ConfigError, LoadedConfig
from router.config.models import SHIPPED_MODELS
from router.config.reading import BUILT_IN
from router.config.targets import TargetPlan
from router.connect.pointing import Pointing, where_it_points
from router.connect.recipe import installed_clients
from router.contract.extras import how_to_install
from router.contract.request import JsonObject
from router.contract.signals import reserve_tokens
from router.contract.stores import SharedUnusable, StoreUnusable
from router.edge.server import CannotListen, bind, check_host
from router.sense.exact import find_vocabulary
from router.sense.models import ModelNames
from router.stores.memory.responses import MemoryResponses
from router.stores.shared import open_shared
from router.stores.sqlite.files import StoreUnwritable
from router.stores.sqlite.lock import StoreInUse
from router.stores.sqlite.migrate import foresee, rehearse, say_room
from router.stores.sqlite.schemas import JOBS, LEDGER, RESPONSES, Migrations
from router.telemetry.colour import GREEN, RED, YELLOW, paint
from router.wiring.stores import JOBS_FILE

GOOD, NOTE, WARN, FIX = "ok", "note", "warn", "fix"
_COLOURS = {GOOD: GREEN, NOTE: None, WARN: YELLOW, FIX: RED}
_ORDER = list(_COLOURS)
_SOON_SECONDS = 14 * 86_400.0
_FEW_BYTES, _SCARCE_BYTES = 20 << 20, 500 << 20
_ASK_SECONDS = 10.0
_AGENT_TOKENS = 16_000
"""Less room for a prompt is too small for coding agents: Codex's first one has 10,000 to 14,000 tokens."""
_INDENT, _LEAST_COLUMNS = 17, 30
_HINT = "\n  hint: "


@dataclass(frozen=True, slots=True)
class Finding:
    about: str
    state: str
    text: str
    hint: str = ""
    is_refusal: bool = False
    """`tandem serve` would refuse to start."""
    figures: JsonObject = field(default_factory=dict)

    def as_json(self) -> JsonObject:
        told: JsonObject = {"about": self.about, "state": self.state, "text": self.text, "hint": self.hint}
        return {**told, "figures": self.figures} if self.figures else told


def refuse(about: str, words: str) -> Finding:
    text, _, hint = words.partition(_HINT)
    return Finding(about, FIX, text, hint, is_refusal=True)


def say_findings(findings: list[Finding]) -> None:
    """What to fix comes last, where it is seen."""
    for finding in sorted(findings, key=lambda found: _ORDER.index(found.state)):
        colour, mark = _COLOURS[finding.state], f"{finding.state:<5}"
        first, *more = [*_wrap(finding.text), *_wrap(f"hint: {finding.hint}" if finding.hint else "")]
        print(f"{paint(mark, colour, sys.stdout) if colour else mark} {finding.about:<10} {first}")
        for line in more:
            print(f"{'':<{_INDENT}}{line}")


def _wrap(text: str) -> list[str]:
    """Commands and paths stay whole for pasting."""
    room = max(columns_here() - _INDENT, _LEAST_COLUMNS)
    return [part for line in text.splitlines() for part in wrap(line, room, break_long_words=False, break_on_hyphens=False)]


def look_at_faults(error: ConfigError) -> list[Finding]:
    faults, server = list(error.faults), error.content.get("server")
    host = server.get("host") if isinstance(server, dict) else None
    try:
        check_host(host if isinstance(host, str) else "localhost", needs_keys="keys" in error.content)
    except CannotListen as refusal:
        problem, _, hint = str(refusal).partition(_HINT)
        faults.append(Fault("server.host", problem.removeprefix("server.host: "), hint))
    places = (error.source if fault.path == "file" else fault.place for fault in faults)
    return [
        Finding("config", FIX, f"{place}: {fault.problem}", fault.hint, is_refusal=True)
        for place, fault in zip(places, faults, strict=True)
    ]


def look_around(loaded: LoadedConfig, *, in_full: bool) -> list[Finding]:
    """`in_full` reads the whole ledger."""
    findings = [Finding("config", GOOD, f"{loaded.source} ({loaded.fingerprint})")]
    off = loaded.switched_off
    findings += [Finding("config", FIX if warning in off else WARN, warning) for warning in loaded.warnings]
    if loaded.is_simulated:
        hint = f"{init_command()} writes a config for your keys and local servers"
        findings.append(Finding("config", NOTE, "no model is configured: simulated tiers answer", hint))
    return [
        *findings,
        look_at_port(loaded),
        *look_at_certificate(loaded, time.time()),
        *look_at_clients(loaded),
        *look_at_files(loaded, in_full=in_full),
        *look_at_state(),
        *look_at_shared(loaded),
        *look_at_callers(loaded, time.time()),
        *look_at_keys(loaded),
        *look_at_windows(loaded),
    ]


def describe(loaded: LoadedConfig) -> list[Finding]:
    names = ModelNames(loaded.config.models, tuple(plan.target.name for plan in loaded.targets), SHIPPED_MODELS)
    meanings = (name if name == meaning else f"{name} → {meaning}" for name, meaning in names.meanings.items())
    own = (policy.name for policy in loaded.own_policies if policy.kind is not None)
    policies = ", ".join((*(name for name, _ in loaded.policies), *own))
    told = [
        *(("target", _describe_target(plan)) for plan in loaded.targets),
        ("decision", f"preference {loaded.config.preference}; policies: {policies}"),
        ("models", f"first match wins: {', '.join(meanings)}"),
    ]
    if loaded.webhook is not None:
        told.append(("alerts", f"sent to the address in {loaded.webhook.variable}"))
    return [Finding(about, GOOD, text) for about, text in told]


def _describe_target(plan: TargetPlan) -> str:
    target, endpoint = plan.target, plan.endpoint
    model = f"{readable(endpoint.model)} at " if endpoint.model else ""
    text = f"{target.tier} {target.name}: {model}{endpoint.base_url or plan.adapter}"
    text += f", key {endpoint.api_key}" if endpoint.api_key else ""
    sent = ", ".join(extra.name for extra in (*endpoint.headers, *endpoint.query))
    text += f", sends {sent}" if sent else ""
    facts = f"; {', '.join(plan.looked_up)} from litellm's table" if plan.looked_up else ""
    return f"{text}; {'/'.join(sorted(target.speaks))}{facts}"


def look_at_port(loaded: LoadedConfig) -> Finding:
    server, url = loaded.config.server, usual_url(loaded)
    try:
        bind(server.host, server.port, needs_keys=loaded.keys is not None).close()
    except CannotListen as error:
        return _look_at_router(loaded, url) if is_tandem(url, _ASK_SECONDS) else refuse("port", explain(error))
    text = f"{server.host}:{server.port} is free" if server.port else "any free port"
    if (running := url_in_use(loaded)) != url:
        text += f"; a router with this config is running at {running}"
    return Finding("port", GOOD, text)


def _look_at_router(loaded: LoadedConfig, url: str) -> Finding:
    """Whether the router at this config's address runs with this config, as far as it was started by this user."""
    place, router, path = f"{loaded.config.server.host}:{loaded.config.server.port}", find_at(url), path_of(loaded)
    text = f"{place}: a Tandem router is running there"
    if router is None:
        return Finding("port", GOOD, text)
    if router.config != (path and path.absolute()):
        hint = f"set another server.port, or end it: {command_name()} stop --url {url}"
        return Finding("port", WARN, f"{text} with another config, {router.config or BUILT_IN}", hint)
    if router.fingerprint != loaded.fingerprint:
        return Finding("port", WARN, f"{text} with this config as it was before", f"{command_name()} reload")
    return Finding("port", GOOD, f"{text} with this config")


def look_at_certificate(loaded: LoadedConfig, now: float) -> list[Finding]:
    if loaded.tls_paths is None:
        return []
    certificate = read_certificate(loaded.tls_paths)
    text = f"{loaded.tls_paths.cert}: {certificate.describe(now)}"
    found = [Finding("tls", GOOD, text)]
    if certificate.expires_soon(now):
        state = FIX if certificate.is_expired(now) else WARN
        found = [Finding("tls", state, text, "renew it; a reload of the router reads both files again")]
    if certificate.is_authority:
        text = f"{loaded.tls_paths.cert} is a CA's own certificate: Codex and other clients with rustls refuse it and wait"
        hint = "sign a certificate for the server with it: docs/run/teams.md shows how"
        found.append(Finding("tls", WARN, text, hint))
    return found


def look_at_clients(loaded: LoadedConfig) -> list[Finding]:
    if loaded.config.server.port == 0:
        text = "server.port is 0: the address changes with every start"
        return [Finding("client", NOTE, text, "set server.port for clients")]
    found = []
    for recipe in installed_clients():
        pointing = where_it_points(recipe, read_facts(loaded, None), open_store(), shell_here())
        is_good = pointing in (Pointing.HERE, Pointing.BY_HAND)
        hint = "" if is_good else f"{command_name()} connect {recipe.client}{pointing.options}"
        found.append(Finding("client", GOOD if is_good else NOTE, f"{recipe.name}: {pointing}", hint))
    return found or [Finding("client", GOOD, "no known coding client on PATH")]


def look_at_files(loaded: LoadedConfig, *, in_full: bool = False) -> list[Finding]:
    ledger, found = loaded.ledger_path, list[Finding | None]()
    if ledger is None:
        found.append(Finding("ledger", NOTE, "no ledger is kept", "set ledger.path: tandem log and tandem why read it"))
    else:
        faults = _look_at_file(loaded, "ledger", ledger, LEDGER, in_full=in_full)
        found.append(faults or _look_at_migration("ledger", ledger, LEDGER) or _look_at_room(ledger))
        jobs = ledger.with_name(JOBS_FILE)
        if jobs.exists() and loaded.shared_postgres is None:
            found.append(_look_at_file(loaded, "jobs", jobs, JOBS) or _look_at_migration("jobs", jobs, JOBS))
    if (store := loaded.store_path) is not None:
        found.append(_look_at_file(loaded, "store", store, RESPONSES) or _look_at_migration("store", store, RESPONSES))
    return [one for one in found if one is not None]


def look_at_state() -> list[Finding]:
    """Whether other users can get at the state folder. Tandem creates it for its owner alone."""
    try:
        folder = state_folder()
        mode = folder.stat().st_mode & 0o777
    except (NoHome, OSError):
        return []
    if not mode & 0o077:
        return []
    text = f"{folder}: other users can {'rename and replace' if mode & 0o022 else 'list'} what is in it (mode {mode:04o})"
    return [Finding("state", WARN if mode & 0o022 else NOTE, text, f"chmod 700 {folder}")]


_WITHOUT = {
    "ledger": "its rows wait in memory, and callers with a budget are refused",
    "store": "requests for stored responses are refused",
    "jobs": "requests with background: true are refused",
}
"""What a router does that starts without a file."""


def _look_at_file(
    loaded: LoadedConfig, about: str, path: Path, migrations: Migrations, *, in_full: bool = False
) -> Finding | None:
    """Why a router would not open a file, or who has it open; None if it can."""
    try:
        rehearse(path, migrations, in_full=in_full)
    except StoreInUse as error:
        if about == "jobs":  # left to the router that uses it
            return None
        if not _is_own(loaded, error.owner.address):
            return refuse(about, explain(error))
        return Finding(about, GOOD, f"{path}, in use by the router {error.owner}")
    except StoreUnwritable as error:
        text = f"{path} cannot be used ({error.reason}): {_WITHOUT[about]}, until it can be"
        return Finding(about, FIX, text, "free the place, or set another file (ledger.path, store.path)")
    except StoreUnusable as error:
        return refuse(about, explain(error))
    return None


def _is_own(loaded: LoadedConfig, address: str) -> bool:
    sources = {str(router.config) for router in all_routers() if router.url == address}
    return address == usual_url(loaded) or str(Path(loaded.source).absolute()) in sources


def _look_at_migration(about: str, path: Path, migrations: Migrations) -> Finding | None:
    if (coming := foresee(path, migrations)) is None:
        return None
    before, needed = coming
    if (free := _free_bytes(path)) < needed:
        hint = f"make room on this disk, or set {'store.path' if about == 'store' else 'ledger.path'}"
        return Finding(
            about, FIX, f"{path}: {say_room(needed, free)}", f"{hint}; until then the router serves without this file"
        )
    text = f"{path}: the next start migrates it from schema {before} to {migrations.newest}"
    kept = f"It keeps the file as it is now in {path.name}.before-{before + 1}, and needs {-(-needed // 1_000_000)} MB"
    return Finding(about, NOTE, f"{text}. {kept}")


def _look_at_room(path: Path) -> Finding:
    free = _free_bytes(path)
    if free < _SCARCE_BYTES:
        state = FIX if free < _FEW_BYTES else WARN
        return Finding("ledger", state, f"{path}: {free >> 20} MB free", "make room on this disk, or set ledger.path")
    return Finding("ledger", GOOD, f"{path}, {free >> 30} GB free")


def _free_bytes(path: Path) -> int:
    return shutil.disk_usage(next(parent for parent in path.parents if parent.exists())).free


def look_at_shared(loaded: LoadedConfig) -> list[Finding]:
    terms = loaded.shared
    if terms is None:
        return []
    try:
        if (shared := open_shared(terms)) is not None:  # not connected
            shared.share_responses(MemoryResponses())
    except SharedUnusable as error:
        return [refuse("shared", explain(error))]
    stores = {"valkey": terms.valkey, "postgres": terms.postgres}
    named = [f"{name} at {store.url}" for name, store in stores.items() if store is not None]
    named += [f"secret {terms.secret}"] if terms.secret is not None else []
    return [
        Finding("shared", GOOD, f"{', '.join(named)}; this router is {terms.replica}"),
        *(Finding("shared", NOTE, f"not shared: {line}") for line in loaded.unshared),
    ]


def look_at_callers(loaded: LoadedConfig, now: float) -> list[Finding]:
    """The number of keys, and those that expire within two weeks."""
    keys = loaded.keys
    if keys is None:
        return []
    found = [Finding("callers", GOOD, f"{plural(len(keys.rights), 'caller')}, {plural(len(keys), 'key')}")]
    for key in keys:
        if (end := key.expires_at) is None or end > now + _SOON_SECONDS:
            continue
        later = (other for other in keys if other.caller == key.caller and (other.expires_at is None or other.expires_at > end))
        text = f"{key.id} of {key.caller.name} {'expired' if end <= now else 'expires'} "
        text += moment(datetime.fromtimestamp(end, UTC))
        if end <= now:
            found.append(Finding("callers", NOTE, text, f"remove it with {command_name()} keys revoke {key.id}"))
        elif next(later, None) is not None:
            found.append(Finding("callers", NOTE, f"{text}; {key.caller.name} has a newer key"))
        else:
            found.append(Finding("callers", WARN, text, f"{command_name()} keys rotate {key.caller.name}"))
    return found


def look_at_keys(loaded: LoadedConfig) -> list[Finding]:
    """Where each key comes from, never its value."""
    found = []
    for key in dict.fromkeys(key for plan in loaded.targets for key in plan.endpoint.secrets):
        if key.is_reference:
            found.append(Finding("key", GOOD, f"{key}, from {'.env' if key.is_from_file else 'the environment'}"))
        elif key.is_callers:
            found.append(Finding("key", GOOD, "each caller brings its own"))
        else:
            found.append(Finding("key", NOTE, "a key is written in the config", "keep it out of the file with env:NAME"))
    return found


def look_at_windows(loaded: LoadedConfig) -> list[Finding]:
    models = [plan for plan in loaded.targets if plan.is_model]
    windows = {plan.target.name: plan.target.window_tokens for plan in models}
    small = [name for name, window in windows.items() if window - reserve_tokens(window) < _AGENT_TOKENS]
    if not small:
        return []
    named = ", ".join(f"{name} ({windows[name]:,} tokens)" for name in small)
    others = ", ".join(name for name in windows if name not in small)
    instead = f"only {others} can serve them" if others else "no target here can serve them"
    text = (
        f"window too small for coding agents: {named}. Claude Code and Codex send 10,000 tokens or more of "
        f"instructions and tools with every request; {instead}"
    )
    hint = (
        "start the engine with a larger window (llama-server --ctx-size 65536, OLLAMA_CONTEXT_LENGTH=65536 ollama serve), "
        "and set window_tokens"
    )
    return [Finding("window", WARN, text, hint)]


def look_at_python() -> Finding:
    text = f"{platform.python_implementation()} {platform.python_version()}"
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    if arguments and "--enable-optimizations" not in arguments:
        hint = "one from your distribution or python.org takes 6 to 12 % less CPU"
        return Finding("python", NOTE, f"{text}, built without optimizations", hint)
    return Finding("python", GOOD, text)


def look_at_tokenizer() -> Finding:
    if find_vocabulary() is not None:
        return Finding("tokenizer", GOOD, "vocabulary found: tokens are counted offline")
    hint = f"{how_to_install('litellm')}, or TIKTOKEN_CACHE_DIR with the o200k_base file"
    return Finding("tokenizer", NOTE, "no vocabulary: token counts near a limit are estimates", hint)
