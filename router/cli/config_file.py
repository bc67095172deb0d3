"""Edits the config file: checks the result first, keeps a backup, comments and format."""

import argparse
import os
import shlex
from collections.abc import Callable
from pathlib import Path

from router.cli import Ended
from router.cli.common import command_name, free_backup, known_names, say
from router.cli.edit import CannotEdit
from router.config.load import ConfigError, check_config, find_config


def change_config(arguments: argparse.Namespace, change: Callable[[str], str]) -> None:
    """Change the config, and print how to undo that. Raises `Ended`."""
    path = find_config(arguments.config)
    if path is None:
        raise Ended(2, f"there is no config file to write to\n  hint: {command_name()} init writes one")
    try:
        old = path.read_bytes()
        new = change(old.decode("utf-8"))
        check_config(new, str(path), path.resolve().parent, known_names())
        kept, real = _write(path, old, new.encode("utf-8"))
    except CannotEdit as error:
        raise Ended(1, f"not applied: {error}") from error
    except ConfigError as error:
        raise Ended(1, f"not applied: {'; '.join(map(str, error.faults))}") from error
    except UnicodeDecodeError:
        raise Ended(1, f"not applied: {path} is not UTF-8") from None
    except OSError as error:
        raise Ended(1, f"not applied: {error.filename}: {error.strerror}") from error
    say(f"wrote {path}; the old file is {kept}. Restart a running router to use it")
    say(f"  to undo: mv {shlex.quote(str(kept))} {shlex.quote(str(real))}")


def _write(path: Path, old: bytes, new: bytes) -> tuple[Path, Path]:
    """Back the file up, then replace it atomically; both keep its permissions.

    A link stays: its target is replaced and the backup is next to that, so that moving it back undoes the change.
    """
    real = path.resolve() if path.is_symlink() else path
    mode = real.stat().st_mode & 0o777
    kept = free_backup(real)
    write_private(kept, old, mode)
    replace_file(real, new, mode)
    return kept, real


def replace_file(path: Path, content: bytes, mode: int) -> None:
    fresh = path.with_name(f".{path.name}.new")
    write_private(fresh, content, mode)
    os.replace(fresh, path)


def write_private(path: Path, content: bytes, mode: int) -> None:
    """Set the final mode from the start, so that others can never read it."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(content)
    path.chmod(mode)
