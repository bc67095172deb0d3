"""Backups: all files of a config as they were at one moment, in a tar file with a manifest.

A database is read in one transaction, which holds up no writer, and copied in steps. A restore checks the whole archive before
it changes anything, and keeps what it replaces.
"""

import contextlib
import hashlib
import itertools
import os
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from router.contract.stores import StoreUnusable
from router.stores.folders import make_folders
from router.stores.sqlite.damage import read_damage
from router.stores.sqlite.files import WRITE_SECONDS, connect, connect_to_read, say_unreadable, side_files
from router.stores.sqlite.lock import FileLock
from router.stores.sqlite.schemas import JOBS, LEDGER, RESPONSES, Migrations, check_version
from router.stores.sqlite.state import count_tables

DATABASES: dict[str, Migrations] = {"tandem.db": LEDGER, "responses.db": RESPONSES, "jobs.db": JOBS}
"""Names of databases in an archive."""
PLAIN = ("config.yaml", "keys.yaml", "tandem.db.key")
OWN = "policies/"
"""Before the names of files with the operator's own policies."""
ASIDE = ".before-restore"
_MANIFEST, _FORMAT = "manifest.json", 1
_MAX_MANIFEST = 1 << 20
_STEP_PAGES, _STEP_SECONDS = 1_000, 0.005
"""Pages that are copied at once, and the pause after them: the disk is the router's, too."""
_PRIVATE = os.O_CREAT | os.O_EXCL | os.O_WRONLY


class Item(NamedTuple):
    """A file that belongs into an archive."""

    name: str
    path: Path
    place: str
    """From the config's folder, or absolute."""


class Member(Struct, frozen=True):
    name: str
    place: str
    bytes: int
    sha256: str
    schema: int | None = None
    rows: dict[str, int] = {}


class Manifest(Struct, frozen=True):
    tandem: str
    at: float
    files: tuple[Member, ...]
    format: int = _FORMAT


class Restored(NamedTuple):
    path: Path
    aside: Path | None
    """What was there."""


def write_archive(archive: Path, items: Sequence[Item], version: str) -> Manifest:
    """Raises `FileExistsError`, and `StoreUnusable` for a database that cannot be read."""
    if archive.exists():
        raise FileExistsError
    make_folders(archive.parent)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=f".{archive.name}.") as folder:
        copies = {item.name: Path(folder) / str(number) for number, item in enumerate(items)}
        with contextlib.ExitStack() as held:
            sources = {item.name: held.enter_context(_snapshot(item.path)) for item in items if item.name in DATABASES}
            at = time.time()
            members = tuple(_copy(item, copies[item.name], sources.get(item.name)) for item in items)
        manifest = Manifest(version, at, members)
        copies = {_MANIFEST: _write(Path(folder) / _MANIFEST, msgspec.json.format(msgspec.json.encode(manifest))), **copies}
        part = Path(folder) / "archive"
        with open(os.open(part, _PRIVATE, 0o600), "wb") as file, tarfile.open(fileobj=file, mode="w") as tar:
            for name, copy in copies.items():
                tar.add(copy, name)
                copy.unlink()
        _sync(part)
        try:
            os.link(part, archive)
        except FileExistsError:
            raise
        except OSError:  # no hard links on this file system
            part.rename(archive)
    return manifest


@contextlib.contextmanager
def _snapshot(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that sees the file as it is now."""
    with _explained(path), contextlib.closing(connect_to_read(path, WRITE_SECONDS)) as database:
        database.execute("BEGIN")
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()  # begins it
        yield database


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreUnusable(f"{path}: not a usable database: {say_unreadable(path, error)}") from error


def _copy(item: Item, copy: Path, source: sqlite3.Connection | None) -> Member:
    schema, rows = None, dict[str, int]()
    _write(copy, item.path.read_bytes() if source is None else b"")
    if source is not None:
        with _explained(item.path), contextlib.closing(sqlite3.connect(copy)) as target:
            target.execute("PRAGMA journal_mode = OFF")
            source.backup(target, pages=_STEP_PAGES, progress=lambda *_: time.sleep(_STEP_SECONDS))
            schema = check_version(target, item.path, DATABASES[item.name])
            rows = count_tables(target)
    with copy.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Member(item.name, item.place, copy.stat().st_size, digest, schema, rows)


def _write(path: Path, content: bytes) -> Path:
    with open(os.open(path, _PRIVATE, 0o600), "wb") as file:
        file.write(content)
    return path


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_manifest(archive: Path) -> Manifest:
    """Raises `StoreUnusable` for a file that is not a backup, or a newer Tandem's."""
    try:
        with tarfile.open(archive, "r:") as tar:
            first = tar.next()
            content = tar.extractfile(first) if first is not None and first.name == _MANIFEST else None
            if content is None:
                raise StoreUnusable(f"{archive}: not a backup of Tandem")
            manifest = msgspec.json.decode(content.read(_MAX_MANIFEST), type=Manifest)
    except (tarfile.TarError, msgspec.MsgspecError, UnicodeDecodeError, EOFError) as error:
        raise StoreUnusable(f"{archive}: not a backup of Tandem: {error}") from error
    names = [member.name for member in manifest.files]
    if manifest.format != _FORMAT or any(not _is_known(name) for name in names):
        raise StoreUnusable(f"{archive}: written by a newer Tandem ({manifest.tandem})")
    if len(set(names)) != len(names):
        raise StoreUnusable(f"{archive}: damaged: a file is listed twice")
    return manifest


def _is_known(name: str) -> bool:
    return name in DATABASES or name in PLAIN or name.startswith(OWN)


def restore_archive(archive: Path, manifest: Manifest, places: dict[str, Path]) -> list[Restored]:
    """Put each file in its place. Raises `StoreInUse` while a router runs on one, and `StoreUnusable`: nothing is changed."""
    with contextlib.ExitStack() as held:
        for name, path in places.items():
            make_folders(path.parent)
            if name in DATABASES:
                held.callback(FileLock(path).release)
        fresh: dict[str, Path] = {}
        try:
            with tarfile.open(archive, "r:") as tar:
                for member in manifest.files:
                    _extract(tar, archive, member, fresh, places[member.name])
            return _put_in_place(fresh, places)
        except (tarfile.TarError, EOFError) as error:
            raise StoreUnusable(f"{archive}: damaged: {error}") from error
        finally:
            for path in fresh.values():
                path.unlink(missing_ok=True)


def _extract(tar: tarfile.TarFile, archive: Path, member: Member, fresh: dict[str, Path], place: Path) -> None:
    """Write a file next to its place, and check it."""
    try:
        content = tar.extractfile(member.name)
    except KeyError:
        content = None
    if content is None:
        raise StoreUnusable(f"{archive}: damaged: {member.name} is missing")
    handle, name = tempfile.mkstemp(prefix=f".{place.name}.", suffix=".restoring", dir=place.parent)  # mode 0600
    fresh[member.name] = path = Path(name)
    if member.name in PLAIN and place.exists():
        path.chmod(place.stat().st_mode & 0o777)  # another user's service may read it
    digest = hashlib.sha256()
    with open(handle, "wb") as file:
        while chunk := content.read(1 << 20):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    if digest.hexdigest() != member.sha256:
        raise StoreUnusable(f"{archive}: damaged: {member.name} is not what was backed up")
    if member.name in DATABASES:
        address = f"{path.as_uri()}?mode=ro&immutable=1"
        with _explained(place), contextlib.closing(sqlite3.connect(address, uri=True)) as database:
            check_version(database, place, DATABASES[member.name])
            if damage := read_damage(database, in_full=True):
                raise StoreUnusable(f"{archive}: {member.name} is damaged: {damage}")


def _put_in_place(fresh: dict[str, Path], places: dict[str, Path]) -> list[Restored]:
    """All files, or none."""
    done: list[Restored] = []
    try:
        for name, path in fresh.items():
            done.append(Restored(places[name], _set_aside(places[name], is_database=name in DATABASES)))
            path.rename(places[name])
    except OSError:
        for restored in reversed(done):
            if restored.aside is not None:
                _move(restored.aside, restored.path)
            else:
                restored.path.unlink(missing_ok=True)
        raise
    return done


def _set_aside(path: Path, *, is_database: bool) -> Path | None:
    if not path.exists():
        return None
    if is_database:
        with contextlib.suppress(sqlite3.Error), contextlib.closing(connect(path)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    wanted = (path.with_name(f"{path.name}{ASIDE}{f'.{number}' if number else ''}") for number in itertools.count())
    aside = next(name for name in wanted if not name.exists())
    _move(path, aside)
    os.utime(aside)  # copies are deleted by their age
    return aside


def _move(path: Path, to: Path) -> None:
    """With the side files of a database, which belong to its name."""
    path.rename(to)
    for side, its in zip(side_files(path), side_files(to), strict=True):
        with contextlib.suppress(FileNotFoundError):
            side.rename(its)
