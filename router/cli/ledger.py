"""`tandem ledger`: look at the files that a router keeps, back them up, restore them and make them smaller."""

import argparse
import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from router.cli import Ended, installed_version
from router.cli.common import (
    add_config_argument,
    add_json_argument,
    command_name,
    find_config_in_use,
    known_names,
    print_json,
    refuse_config,
    say,
)
from router.cli.figures import plural
from router.config.files import Files, find_files
from router.config.load import ConfigError, find_config
from router.contract.request import Json, JsonObject
from router.contract.stores import StoreUnusable
from router.stores.sqlite.archive import DATABASES, OWN, Item, Manifest, read_manifest, restore_archive, write_archive
from router.stores.sqlite.compact import shrink
from router.stores.sqlite.lock import StoreInUse, find_owner
from router.stores.sqlite.past import wait_for_writer
from router.stores.sqlite.state import CopyState, FileState, look_at_file, measure_copy
from router.wiring.stores import JOBS_FILE

EXAMPLES = (
    "ledger status",
    "ledger backup ~/tandem-2026-11-18.tar",
    "ledger restore ~/tandem-2026-11-18.tar",
    "ledger restore ~/tandem-2026-11-18.tar --config new/config.yaml",
    "ledger compact",
)
_NAMES = {"tandem.db": "ledger", "responses.db": "responses", "jobs.db": "jobs"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = "backup, restore: also callers' keys, config and what marks taught; compact: give free room to the disk"
    parser.add_argument("action", choices=tuple(_ACTIONS), help=actions)
    parser.add_argument("file", nargs="?", metavar="FILE", help="the archive, a tar file")
    add_config_argument(parser)
    add_json_argument(parser, " (status)")


def run(arguments: argparse.Namespace) -> int:
    action = arguments.action
    if bool(arguments.file) != (action in ("backup", "restore")):
        raise Ended(2, f"{command_name()} ledger {action} {'takes no' if arguments.file else 'needs a'} FILE")
    if arguments.json and action != "status":
        raise Ended(2, "--json is an option of status")
    try:
        return _ACTIONS[action](arguments)
    except ConfigError as error:
        raise refuse_config(error.source, error.faults) from error
    except StoreInUse as error:
        raise Ended(1, f"{error}\n  hint: {command_name()} stop, then try again") from error
    except StoreUnusable as error:
        raise Ended(1, str(error)) from error


def _find(config: str | None) -> Files:
    return find_files(find_config_in_use(config), known_names)


def _find_databases(files: Files) -> dict[str, Path]:
    """Those that exist, by their names in an archive."""
    jobs = files.ledger.with_name(JOBS_FILE) if files.ledger is not None else None
    found = zip(DATABASES, (files.ledger, files.store, jobs), strict=True)
    return {name: path.resolve() for name, path in found if path is not None and path.is_file()}


def _show_status(arguments: argparse.Namespace) -> int:
    files = _find(arguments.config)
    found = {name: look_at_file(path) for name, path in _find_databases(files).items()}
    folders = {path.parent for path in (files.folder / "config.yaml", *(one.path for one in found.values()))}
    backups = [backup for folder in sorted(folders) for backup in _find_backups(folder)]
    if arguments.json:
        print_json(_as_json(found, backups))
        return 0
    if not found:
        say("no file is kept yet")
    for name, one in found.items():
        print("\n".join(_describe(name, one)))
    for backup in backups:
        print(f"backup     {backup.path}: {_size(backup.size)}, of {_day(backup.at)}")
    return 1 if any(one.problem for one in found.values()) else 0


def _find_backups(folder: Path) -> Iterator[CopyState]:
    for path in sorted(folder.glob("*.tar")):
        with contextlib.suppress(StoreUnusable, OSError):
            yield measure_copy(path)._replace(at=read_manifest(path).at)


def _describe(name: str, one: FileState) -> Iterator[str]:
    yield f"{_NAMES[name]:<11}{one.path}"
    if one.pages is None:
        yield f"           cannot be read: {one.problem}"
    else:
        pages = one.pages
        known = DATABASES[name].newest
        schema = f"schema {one.schema}" if one.schema == known else f"schema {one.schema} (this Tandem writes {known})"
        whole = _size(pages.total_bytes)
        yield f"           {whole}, {_size(pages.free_bytes)} of it free; log {_size(one.log_bytes)}; {schema}"
        if pages.are_worth_freeing and not pages.is_mapped:
            yield f"           shrinks only while no router runs: {command_name()} ledger compact"
        span = f", from {_day(one.oldest)} to {_day(one.newest)}" if one.oldest and one.newest else ""
        yield f"           {', '.join(f'{rows} {table}' for table, rows in one.rows if rows) or 'no rows'}{span}"
        if one.problem:
            yield f"           that is without its log, which cannot be read: {one.problem}"
    if (owner := find_owner(one.path)) is not None:
        yield f"           in use by the router {owner}"
    for copy in one.copies:
        yield f"           copy {copy.path.name}: {_size(copy.size)}, of {_day(copy.at)}"


def _as_json(found: dict[str, FileState], backups: list[CopyState]) -> JsonObject:
    return {
        "files": [
            {
                "store": _NAMES[name],
                "path": str(one.path),
                "bytes": one.pages.total_bytes if one.pages else one.path.stat().st_size,
                "free_bytes": one.pages.free_bytes if one.pages else None,
                "log_bytes": one.log_bytes,
                "schema": one.schema,
                "newest_schema": DATABASES[name].newest,
                "rows": dict(one.rows),
                "oldest_at": one.oldest,
                "newest_at": one.newest,
                "shrinks_in_use": one.pages.is_mapped if one.pages else None,
                "in_use": find_owner(one.path) is not None,
                "copies": _list_copies(one.copies),
                "problem": one.problem or None,
            }
            for name, one in found.items()
        ],
        "backups": _list_copies(backups),
    }


def _list_copies(copies: list[CopyState]) -> list[Json]:
    return [{"path": str(copy.path), "bytes": copy.size, "at": copy.at} for copy in copies]


def _back_up(arguments: argparse.Namespace) -> int:
    files, archive = _find(arguments.config), Path(os.path.abspath(os.path.expanduser(arguments.file)))
    items = list(_list_items(files))
    if not any(item.name in DATABASES for item in items):
        raise Ended(1, "no file is kept yet: there is nothing to back up")
    for item in items:
        if item.name in DATABASES:
            wait_for_writer(item.path)
            break  # for all of them
    try:
        manifest = write_archive(archive, items, installed_version())
    except FileExistsError as error:
        raise Ended(1, f"{archive} exists, and no backup is overwritten\n  hint: give another name") from error
    print(f"wrote {archive}: {_size(archive.stat().st_size)}")
    for member in manifest.files:
        print(f"  {member.name}: {_size(member.bytes)}{_say_rows(member.rows)}")
    say("keys of providers (.env, the environment) and certificates are not in it")
    return 0


def _say_rows(rows: dict[str, int]) -> str:
    return f", {plural(sum(rows.values()), 'row')}" if rows else ""


def _list_items(files: Files) -> Iterator[Item]:
    named = dict(_find_databases(files))
    key = files.ledger.with_name(f"{files.ledger.name}.key") if files.ledger is not None else None
    plain = {"config.yaml": files.config, "keys.yaml": files.keys, "tandem.db.key": key}
    named |= {name: path for name, path in plain.items() if path is not None and path.is_file()}
    named |= {f"{OWN}{number}.py": path for number, path in enumerate(files.policies) if path.is_file()}
    for name, path in named.items():
        yield Item(name, path, _place(path, files.folder) if name != "config.yaml" else name)


def _place(path: Path, folder: Path) -> str:
    with contextlib.suppress(ValueError):
        return str(path.absolute().relative_to(folder))
    with contextlib.suppress(ValueError):
        return str(path.resolve().relative_to(folder.resolve()))
    return str(path.resolve())


def _restore(arguments: argparse.Namespace) -> int:
    archive = Path(os.path.expanduser(arguments.file))
    manifest = read_manifest(archive)
    restored = restore_archive(archive, manifest, _find_places(manifest, arguments.config))
    print(f"restored the backup of {_day(manifest.at)} (Tandem {manifest.tandem or 'of a checkout'}):")
    for one in restored:
        kept = f" (what was there is now {one.aside.name})" if one.aside is not None else ""
        print(f"  {one.path}{kept}")
    say("keys of providers (.env, the environment) are not in a backup: set them before you start the router")
    return 0


def _find_places(manifest: Manifest, named: str | None) -> dict[str, Path]:
    """Where the config of the backup looks for its files. A router that runs elsewhere keeps its own."""
    config = find_config(named)
    if any(member.name == "config.yaml" for member in manifest.files):
        config = config or Path("config.yaml")
        folder = config.resolve().parent
    else:
        folder = find_files(config, known_names).folder
    places = {member.name: (folder / member.place).resolve() for member in manifest.files}
    return places if config is None or "config.yaml" not in places else {**places, "config.yaml": config.resolve()}


def _compact(arguments: argparse.Namespace) -> int:
    found = _find_databases(_find(arguments.config))
    if not found:
        raise Ended(1, "no file is kept yet")
    for path in found.values():
        before, after = shrink(path)
        print(f"{path}: {_size(before)}, now {_size(after)}" if after < before else f"{path}: {_size(after)}, nothing to free")
    return 0


def _size(size: float) -> str:
    """12.3 MB, 2.7 GB."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1_000:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1_000
    return f"{size:.1f} GB"


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


_ACTIONS = {"status": _show_status, "backup": _back_up, "restore": _restore, "compact": _compact}
