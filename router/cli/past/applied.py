"""What the last `tandem tune --apply` changed, and how it is taken back. One record, next to the personal table."""

import hashlib
import time
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from router.cli import Ended
from router.cli.common import command_name, path_of, say, table_path
from router.cli.config_file import Changed, change_config, set_values
from router.config.load import LoadedConfig
from router.connect import files
from router.contract.personal import BadTable, PersonalTable, read_personal, write_personal


class ConfigChange(Struct, frozen=True):
    backup: str
    """The whole file before."""
    after: str
    """Digest of the file that was written: one that is edited since is not replaced by the backup."""
    values: dict[str, float | str] = {}
    """Settings of `decision` that were changed, as they counted before."""
    rules: tuple[str, ...] = ()
    """Lines that were added."""


class Applied(Struct, frozen=True):
    """`table` and `config` are absent if they were not changed."""

    at: float
    has_table: bool = False
    table: msgspec.Raw = msgspec.Raw(b"null")
    """The table before; null if there was none."""
    table_after: str = ""
    config: ConfigChange | None = None

    @property
    def table_before(self) -> PersonalTable | None:
        """Raises `BadTable`."""
        return None if bytes(self.table) == b"null" else read_personal(bytes(self.table))


def record_path(loaded: LoadedConfig) -> Path:
    table = table_path(loaded) or loaded.folder / "personal.json"
    return table.with_name(f"{table.name}.before")


def read_applied(loaded: LoadedConfig) -> Applied | None:
    """None without a readable record."""
    try:
        return msgspec.json.decode(record_path(loaded).read_bytes(), type=Applied)
    except (OSError, msgspec.MsgspecError):
        return None


class Record:
    """Collects what one `--apply` changes."""

    def __init__(self, loaded: LoadedConfig) -> None:
        self._path, self._applied = record_path(loaded), Applied(time.time())

    def write_table(self, path: Path, table: PersonalTable) -> None:
        """Raises `Ended`."""
        content = write_personal(table)
        try:
            before = path.read_bytes().strip() if path.is_file() else b"null"
            self._note(replace(self._applied, has_table=True, table=msgspec.Raw(before), table_after=_digest(content)))
            files.write(path, content, private=True)
        except OSError as error:
            raise Ended(1, f"not applied: {error.filename}: {error.strerror}") from error

    def note_config(self, changed: Changed, values: dict[str, float | str], rules: tuple[str, ...]) -> None:
        change = ConfigChange(str(changed.backup.resolve()), _digest(changed.content), values, rules)
        try:
            self._note(replace(self._applied, config=change))
        except OSError as error:
            say(f"tandem tune --undo will not know of this: {error.filename}: {error.strerror}")

    def _note(self, applied: Applied) -> None:
        self._applied = applied
        files.write(self._path, msgspec.json.encode(applied) + b"\n", private=True)


def undo(loaded: LoadedConfig) -> int:
    """Take the last `--apply` back."""
    applied, path, table = read_applied(loaded), record_path(loaded), table_path(loaded)
    if applied is None:
        say("nothing to undo: tandem tune --apply changed nothing since the last --undo")
        return 0
    if applied.config is not None:
        _restore_config(path_of(loaded), applied.config)
    is_left = applied.has_table and (table is None or not _restore_table(table, applied))
    path.unlink(missing_ok=True)
    if is_left:
        say(f"left {table}: it was changed since")
    return 1 if is_left else 0


def _restore_table(path: Path, applied: Applied) -> bool:
    try:
        if not path.is_file() or _digest(path.read_bytes()) != applied.table_after:
            return False
        before = applied.table_before
        if before is None:
            path.unlink()
        else:
            files.write(path, bytes(applied.table) + b"\n", private=True)
    except (OSError, BadTable) as error:
        raise Ended(1, f"not undone: {path}: {error}") from error
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(applied.at))
    say(f"{path} is as it was before {day}. {command_name()} reload has a running router use it")
    return True


def _restore_config(path: Path | None, change: ConfigChange) -> None:
    """The file before, or the values alone if the file was edited since."""
    backup = Path(change.backup)

    def restore(text: str) -> str:
        if _digest(text.encode("utf-8")) == change.after and backup.is_file():
            return backup.read_bytes().decode("utf-8")
        lines = text.splitlines(keepends=True)
        text = "".join(line for line in lines if line.strip() not in change.rules)
        return set_values(text, "decision", change.values) if change.values else text

    change_config(path, restore)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
