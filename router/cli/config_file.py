"""Edits the config file, keeping its comments and format, and writes the key file. Checks the result first, keeps a backup."""

import contextlib
import errno
import fcntl
import itertools
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson
import yaml
from msgspec.structs import replace

from router.cli import Ended
from router.cli.common import command_name, free_backup, known_names, say
from router.config.key_file import KeyFile, parse_keys, read_key_file, write_keys
from router.config.load import ConfigError, check_config
from router.config.reading import read_config
from router.connect import files
from router.connect.formats import CannotEdit, line_end

_NULL = "tag:yaml.org,2002:null"
_FIRST_LINE = "# Callers, what each may do, and digests of their keys."
_HEADER = f"{_FIRST_LINE} `tandem keys` writes this file, and keeps comments only above `callers`."


class Changed(NamedTuple):
    file: Path
    backup: Path
    content: bytes
    """The new one."""


def change_config(path: Path | None, change: Callable[[str], str]) -> Changed:
    """Change a config, and print how to undo that. Raises `Ended`."""
    if path is None:
        raise Ended(2, f"there is no config file to write to\n  hint: {command_name()} init writes one")
    try:
        old = path.read_bytes()
        new = change(old.decode("utf-8"))
        check_config(new, str(path), path.resolve().parent, replace(known_names(), needs_keys=False))
        kept, real = write_config(path, old, content := new.encode("utf-8"))
    except CannotEdit as error:
        raise Ended(1, f"not applied: {error}") from error
    except ConfigError as error:
        raise Ended(1, f"not applied: {'; '.join(map(str, error.faults))}") from error
    except UnicodeDecodeError:
        raise Ended(1, f"not applied: {path} is not UTF-8") from None
    except OSError as error:
        raise Ended(1, f"not applied: {error.filename}: {error.strerror}") from error
    say_written(path, kept, real)
    return Changed(real, kept, content)


def say_written(path: Path, kept: Path, real: Path) -> None:
    say(f"wrote {path}; the old file is {kept}. {command_name()} reload has a running router use it")
    say(f"  to undo: mv {shlex.quote(str(kept))} {shlex.quote(str(real))}")


def write_config(path: Path, old: bytes, new: bytes) -> tuple[Path, Path]:
    """Back the file up, then replace it atomically; both keep its permissions.

    A link stays: its target is replaced and the backup is next to that, so that moving it back undoes the change.
    """
    real = path.resolve() if path.is_symlink() else path
    mode = real.stat().st_mode & 0o777
    kept = free_backup(real)
    write_private(kept, old, mode)
    files.write(real, new)
    return kept, real


def write_private(path: Path, content: bytes, mode: int) -> None:
    """Set the final mode from the start, so that others can never read it."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(content)
    path.chmod(mode)


class NewRule(NamedTuple):
    """The comment states the rule's origin."""

    words: str
    tier: str
    comment: str

    def as_line(self) -> str:
        """Every JSON string is also a YAML string."""
        return f"- {{when: {{words: {orjson.dumps(self.words).decode()}}}, tier: {self.tier}}}  # {self.comment}"


def add_rules(text: str, rules: Sequence[NewRule]) -> str:
    """Append rules, after the person's own. Raises `CannotEdit` for rules on one line (`[…]`) and invalid YAML."""
    end, indent = line_end(text), 2
    try:
        header, found = _find_entry(yaml.compose(text, Loader=yaml.SafeLoader), "rules")
    except yaml.YAMLError as error:
        raise CannotEdit("the file is not valid YAML") from error
    if header is None or found is None:
        text = f"{_with_line_end(text)}{end}rules:{end}"
        begin = len(text)
    elif isinstance(found, yaml.SequenceNode) and found.value and not found.flow_style:
        indent = found.start_mark.column
        begin = _next_line(text, _last_index(found.value[-1]))
    elif found.tag == _NULL or (isinstance(found, yaml.SequenceNode) and not found.value):
        if found.end_mark.index > found.start_mark.index:  # `[]`, `null`
            text = text[: found.start_mark.index].rstrip(" ") + text[found.end_mark.index :]
        begin = _next_line(text, header.end_mark.index)
    else:
        raise CannotEdit("rules are written on one line: put each on a line of its own, then try again")
    return _with_line_end(text[:begin]) + "".join(f"{' ' * indent}{rule.as_line()}{end}" for rule in rules) + text[begin:]


def _with_line_end(text: str) -> str:
    return text if text.endswith("\n") or not text else text + line_end(text)


def _next_line(text: str, index: int) -> int:
    if index and text[index - 1] == "\n":  # a text block ends with its line
        return index
    found = text.find("\n", index)
    return found + 1 if found >= 0 else len(text)


def _last_index(node: yaml.Node) -> int:
    """A block's own mark is past the comments that follow it."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style:
        return _last_index(node.value[-1][1])
    if isinstance(node, yaml.SequenceNode) and not node.flow_style:
        return _last_index(node.value[-1])
    return node.end_mark.index


def _find_entry(node: yaml.Node | None, name: str) -> tuple[yaml.Node | None, yaml.Node | None]:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next(((key, value) for key, value in pairs if isinstance(key, yaml.ScalarNode) and key.value == name), (None, None))


def change_key_file(path: Path, change: Callable[[KeyFile], KeyFile]) -> KeyFile:
    """Change or create a key file, under a lock, and keep the old one. Raises `ConfigError`, `Ended` and `OSError`."""
    path = path.resolve()
    kept = path.with_name(f"{path.name}.before")
    with _locked(path.parent) as folder:
        old = _read_text(path)
        after = change(read_key_file(path) if old is not None else KeyFile())
        new, loses_comments = _write(old or "", after)
        parse_keys(new, str(path))  # it may be too large now
        if _read_text(path) != old:
            raise Ended(1, f"{path}: another program changed the file at the same moment: try again")
        if old is not None:
            if os.geteuid() not in (0, path.stat().st_uid):  # the router could no longer read it
                raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
            files.write(kept, old.encode(), private=True)
            kept.chmod(path.stat().st_mode & 0o777)
        files.write(path, new.encode())
        with contextlib.suppress(OSError):
            os.fsync(folder)  # a key that was handed out must survive a power cut
    say(f"wrote {path}" if old is None else f"wrote {path}; the old file is {kept}")
    if loses_comments:
        say('  its comments below "callers" were not kept: they are in the old file')
    return after


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Lock the folder, since the file is replaced; yields its handle."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _read_text(path: Path) -> str | None:
    return read_config(path)[0] if path.exists() else None


def _write(old: str, file: KeyFile) -> tuple[str, bool]:
    """The new text, and whether a comment of the old one is not in it. No value can have a `#`."""
    lines = old.splitlines()
    head = list(itertools.takewhile(lambda line: not line.strip() or line.startswith("#"), lines))
    own = (line for line in head if not line.startswith(_FIRST_LINE))
    return "\n".join([_HEADER, *own, write_keys(file)]), any("#" in line for line in lines[len(head) :])
