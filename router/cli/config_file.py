"""Edits the config file: checks the result first, keeps a backup, comments and format."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson
import yaml
from msgspec.structs import replace

from router.cli import Ended
from router.cli.common import command_name, free_backup, known_names, say
from router.config.load import ConfigError, check_config
from router.connect import files

_NULL = "tag:yaml.org,2002:null"


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


class CannotEdit(Exception):
    """The setting has no line of its own."""


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
    header, found = find_entry(compose(text), "rules")
    if header is None or found is None:
        text = f"{with_line_end(text)}{end}rules:{end}"
        begin = len(text)
    elif isinstance(found, yaml.SequenceNode) and found.value and not found.flow_style:
        indent = found.start_mark.column
        begin = next_line(text, last_index(found.value[-1]))
    elif found.tag == _NULL or (isinstance(found, yaml.SequenceNode) and not found.value):
        if found.end_mark.index > found.start_mark.index:  # `[]`, `null`
            text = text[: found.start_mark.index].rstrip(" ") + text[found.end_mark.index :]
        begin = next_line(text, header.end_mark.index)
    else:
        raise CannotEdit("rules are written on one line: put each on a line of its own, then try again")
    return with_line_end(text[:begin]) + "".join(f"{' ' * indent}{rule.as_line()}{end}" for rule in rules) + text[begin:]


def compose(text: str) -> yaml.Node | None:
    """Raises `CannotEdit` for invalid YAML."""
    try:
        found: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise CannotEdit("the file is not valid YAML") from error
    return found


def line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def with_line_end(text: str) -> str:
    return text if text.endswith("\n") or not text else text + line_end(text)


def next_line(text: str, index: int) -> int:
    if index and text[index - 1] == "\n":  # a text block ends with its line
        return index
    found = text.find("\n", index)
    return found + 1 if found >= 0 else len(text)


def last_index(node: yaml.Node) -> int:
    """A block's own mark is past the comments that follow it."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style:
        return last_index(node.value[-1][1])
    if isinstance(node, yaml.SequenceNode) and not node.flow_style:
        return last_index(node.value[-1])
    return node.end_mark.index


def find_entry(node: yaml.Node | None, name: str) -> tuple[yaml.Node | None, yaml.Node | None]:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next(((key, value) for key, value in pairs if isinstance(key, yaml.ScalarNode) and key.value == name), (None, None))
