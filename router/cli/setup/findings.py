"""What `doctor` checks on this machine, and how it and `check --live` report what they found."""

import asyncio
import contextlib
import platform
import shutil
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

from router.cli.common import command_name, readable
from router.cli.routers import is_tandem, url_of
from router.cli.setup.engines import Engine, compare, describe, find_small_windows
from router.cli.setup.facts import open_store, read_facts, shell_here
from router.cli.setup.live import Reached, ask_engine, ask_models, ask_target, gather, judge_model
from router.cli.tables import columns_here
from router.config.certificate import read_certificate
from router.config.faults import Fault, how_to_install
from router.config.load import ConfigError, LoadedConfig
from router.config.targets import TargetPlan
from router.connect.pointing import Pointing, where_it_points
from router.connect.recipe import installed_clients
from router.edge.server import CannotListen, bind, check_host
from router.screen.figures import duration
from router.sense.exact import find_vocabulary
from router.stores.sqlite.damage import StoreDamaged, find_damage
from router.stores.sqlite.files import FAILURES, find_lock_problem
from router.stores.sqlite.lock import find_owner
from router.stores.sqlite.migrate import LEDGER, foresee, say_room
from router.telemetry.colour import GREEN, RED, YELLOW, paint
from router.wiring.build import build_house, known_names

GOOD, NOTE, FIX = "ok", "note", "fix"
_COLOURS = {GOOD: GREEN, NOTE: YELLOW, FIX: RED}
_SKEW_SECONDS = 120.0
_SLOW_SECONDS = 5.0
_FEW_BYTES, _SCARCE_BYTES = 20 << 20, 500 << 20
_LOCAL_SECONDS = 3.0
_INDENT, _LEAST_COLUMNS = 17, 30


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked: `ok`, a `note`, or something to `fix`, with a hint."""

    about: str
    state: str
    text: str
    hint: str = ""


def say_findings(findings: list[Finding]) -> None:
    """A line for each, with how to fix it below."""
    for finding in findings:
        mark = paint(f"{finding.state:<5}", _COLOURS[finding.state], sys.stdout)
        first, *more = [*_wrap(finding.text), *_wrap(f"hint: {finding.hint}" if finding.hint else "")]
        print(f"{mark} {finding.about:<10} {first}")
        for line in more:
            print(f"{'':<{_INDENT}}{line}")


def _wrap(text: str) -> list[str]:
    """As many lines as the terminal needs, broken between words. A command or a path stays whole, for pasting."""
    room = max(columns_here() - _INDENT, _LEAST_COLUMNS)
    return wrap(text, room, break_long_words=False, break_on_hyphens=False)


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


def look_at_targets(loaded: LoadedConfig, within_seconds: float, *, calls: bool) -> list[Finding]:
    """Ask every target for its models and, with `calls`, for a few words. All at once."""
    return asyncio.run(_look_at_targets(loaded, within_seconds, calls=calls))


async def _look_at_targets(loaded: LoadedConfig, within_seconds: float, *, calls: bool) -> list[Finding]:
    built = build_house(loaded, with_ledger=False)
    adapters, pool = known_names().adapters, built.house.state.upstream

    async def look(plan: TargetPlan) -> list[Finding]:
        name = f"{plan.target.tier} {plan.target.name}"
        if not plan.is_model:
            return [Finding("target", GOOD, f"{name}: simulated")]
        listed = await ask_models(pool, adapters[plan.adapter], plan.endpoint, within_seconds)
        judged = judge_model(listed, plan.endpoint.model)
        told, engine = judged, Engine()
        if calls and not judged.problem and not plan.endpoint.takes_callers_key:
            asked = await ask_target(built.house, plan, within_seconds)
            told = Reached(asked.problem, asked.hint, judged.models, judged.skew_seconds, asked.ttft_seconds)
        if judged.listed:  # after the call: some engines load a model, and know its window, only then
            engine = await ask_engine(pool, adapters[plan.adapter], plan.endpoint, judged, within_seconds)
        return [_tell_target(name, plan, told, engine), *_tell_engine(name, plan, engine), *_tell_clock(name, told)]

    try:
        found = await gather("asking the targets", [look(plan) for plan in loaded.targets])
    finally:
        await built.close()
    return [finding for findings in found for finding in findings]


def look_at_windows(loaded: LoadedConfig) -> list[Finding]:
    """Windows that are too small for coding agents."""
    remark = find_small_windows(loaded.targets)
    return [Finding("window", NOTE, remark.text, remark.hint)] if remark is not None else []


def _tell_engine(name: str, plan: TargetPlan, engine: Engine) -> list[Finding]:
    remarks = compare(plan, engine)
    return [Finding("target", FIX if one.is_wrong else NOTE, f"{name}: {one.text}", one.hint) for one in remarks]


def _tell_target(name: str, plan: TargetPlan, reached: Reached, engine: Engine) -> Finding:
    if reached.problem:
        return Finding("target", FIX, f"{name}: {reached.problem}", reached.hint)
    parts = [f"knows {readable(plan.endpoint.model)}" if reached.models else "has no list of models"]
    parts += describe(plan, engine)
    if plan.endpoint.takes_callers_key:
        parts.append("not called: callers bring their own key")
    elif reached.ttft_seconds is None and not reached.models:
        text = f"{name}: has no list of models, so its key and model were not checked"
        return Finding("target", NOTE, text, f"{command_name()} doctor asks it for a short answer, which costs a few tokens")
    if reached.ttft_seconds is None:
        return Finding("target", GOOD if reached.models else NOTE, f"{name}: {', '.join(parts)}")
    parts.append(f"first token after {duration(reached.ttft_seconds)}")
    if reached.ttft_seconds > max(_SLOW_SECONDS, 5 * plan.target.typical.ttft_seconds):
        hint = f"its typical.ttft_seconds is {plan.target.typical.ttft_seconds:g}; the first call is slow while a model loads"
        return Finding("target", NOTE, f"{name}: {', '.join(parts)}", hint)
    return Finding("target", GOOD, f"{name}: {', '.join(parts)}")


def _tell_clock(name: str, reached: Reached) -> list[Finding]:
    skew = reached.skew_seconds
    if skew is None or abs(skew) < _SKEW_SECONDS:
        return []
    way = "ahead of" if skew > 0 else "behind"
    return [Finding("clock", NOTE, f"{duration(abs(skew))} {way} that of {name}", "set this machine's clock (NTP)")]


def look_at_ledger(path: Path | None) -> list[Finding]:
    """Whether the ledger can be written, and how much room is left for it."""
    if path is None:
        return [Finding("ledger", NOTE, "no ledger is kept", "set ledger.path: tandem why and tandem tune read it")]
    folder = next((parent for parent in path.parents if parent.exists()), Path("/"))
    if damage := _find_ledger_damage(path):
        return [Finding("ledger", FIX, str(damage), damage.hint)]
    problem = _find_ledger_problem(path, folder)
    if problem:
        hint = "set ledger.path to a file in a writable folder, or start with --no-ledger"
        return [Finding("ledger", FIX, f"{path}: {problem}", hint)]
    free = shutil.disk_usage(folder).free
    if coming := foresee(path, LEDGER):
        return [_tell_migration(path, *coming, free)]
    if free < _SCARCE_BYTES:
        state = FIX if free < _FEW_BYTES else NOTE
        return [Finding("ledger", state, f"{path}: {free >> 20} MB free", "make room on this disk, or set ledger.path")]
    owner = find_owner(path)
    return [Finding("ledger", GOOD, f"{path}, {free >> 30} GB free{f', in use by the router {owner}' if owner else ''}")]


def _find_ledger_damage(path: Path) -> StoreDamaged | None:
    """Read the whole file and compare each index with its table, which a start does not wait for."""
    with contextlib.suppress(*FAILURES):  # locked, or not to be read: that is another problem
        if path.is_file() and (fault := find_damage(path, in_full=True)):
            return StoreDamaged(path, fault)
    return None


def _tell_migration(path: Path, before: int, needed: int, free: int) -> Finding:
    if free < needed:
        hint = "make room on this disk, or set ledger.path; until then the router serves without a record"
        return Finding("ledger", FIX, f"{path}: {say_room(needed, free)}", hint)
    versions = f"from schema {before} to {len(LEDGER)}"
    return Finding(
        "ledger", NOTE, f"{path}: the next start migrates it {versions}, after a copy of {-(-needed // 1_000_000)} MB"
    )


def _find_ledger_problem(path: Path, folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} is not a folder"
    if not path.exists():
        return _find_write_problem(folder)
    return find_lock_problem(path, _LOCAL_SECONDS)


def _find_write_problem(folder: Path) -> str:
    """Why no file can be created there. The only way to know is to try: permissions are not the only obstacle."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"{folder} cannot be written to ({error.strerror})"


def look_at_certificate(loaded: LoadedConfig, now: float) -> list[Finding]:
    """Until when the router's own certificate is valid, if it has one."""
    if loaded.tls_paths is None:
        return []
    certificate = read_certificate(loaded.tls_paths)
    text = f"{loaded.tls_paths.cert}: {certificate.describe(now)}"
    if not certificate.expires_soon(now):
        return [Finding("tls", GOOD, text)]
    state = FIX if certificate.is_expired(now) else NOTE
    return [Finding("tls", state, text, "renew it; a reload of the router reads both files again")]


def look_at_port(host: str, port: int, *, needs_keys: bool = False, is_tls: bool = False) -> Finding:
    """Whether the port is free, or this router's already."""
    try:
        bind(host, port, needs_keys=needs_keys).close()
    except CannotListen as error:
        if is_tandem(url_of(host, port, is_tls=is_tls), _LOCAL_SECONDS):
            return Finding("port", GOOD, f"{host}:{port}: a Tandem router is running there")
        first, _, hint = str(error).partition("\n  hint: ")
        return Finding("port", FIX, first, hint.replace("--port", f"{command_name()} serve --port"))
    return Finding("port", GOOD, f"{host}:{port} is free" if port else "any free port")


def look_at_tokenizer() -> Finding:
    """Whether tokens can be counted without the network."""
    folder = find_vocabulary()
    if folder is not None:
        return Finding("tokenizer", GOOD, "vocabulary found: tokens are counted offline")
    hint = f"{how_to_install('litellm')}, or TIKTOKEN_CACHE_DIR with the o200k_base file"
    return Finding("tokenizer", NOTE, "no vocabulary: token counts near a limit are estimates", hint)


def look_at_clients(loaded: LoadedConfig) -> list[Finding]:
    """The installed clients, and whether they are connected to this router."""
    if loaded.config.server.port == 0:
        return [
            Finding("client", NOTE, "server.port is 0: the address changes with every start", "set server.port for clients")
        ]
    found = []
    for recipe in installed_clients():
        pointing = where_it_points(recipe, read_facts(loaded, None), open_store(), shell_here())
        is_good = pointing in (Pointing.HERE, Pointing.BY_HAND)
        hint = "" if is_good else f"{command_name()} connect {recipe.client}"
        found.append(Finding("client", GOOD if is_good else NOTE, f"{recipe.name}: {pointing}", hint))
    return found or [Finding("client", GOOD, "no known coding client on PATH")]


def look_at_python() -> Finding:
    """The interpreter, and whether its build is the quick one."""
    text = f"{platform.python_implementation()} {platform.python_version()}"
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    if arguments and "--enable-optimizations" not in arguments:
        hint = "one from your distribution or python.org takes 6 to 12 % less CPU"
        return Finding("python", NOTE, f"{text}, built without optimizations", hint)
    return Finding("python", GOOD, text)


def all_faults(error: ConfigError) -> list[Fault]:
    """The faults of a config, and that of its address."""
    server = error.content.get("server")
    host = server.get("host") if isinstance(server, dict) else None
    fault = find_host_fault(host, needs_keys="keys" in error.content) if isinstance(host, str) else None
    return [*error.faults, *([fault] if fault else [])]


def find_host_fault(host: str, *, needs_keys: bool = False) -> Fault | None:
    """Why the router would not listen there. Where callers need keys, it may listen anywhere."""
    try:
        check_host(host, needs_keys=needs_keys)
    except CannotListen as refusal:
        problem, _, hint = str(refusal).partition("\n  hint: ")
        return Fault("server.host", problem.removeprefix("server.host: "), hint)
    return None
