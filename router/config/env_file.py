"""`.env` next to the config file: keys for the `env:NAME` that the environment does not have. Nothing else of it is used."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

NAME = ".env"
_MAX_BYTES = 1 << 20
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_QUOTED = re.compile(r"""(?P<quote>['"])(?P<value>.*?)(?P=quote)\s*(?:#.*)?""")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_OTHERS = 0o077


class EnvFileUnreadable(Exception):
    """The file exists but cannot be read. The message says why."""


def read_env_file(folder: Path) -> Mapping[str, str]:
    """The names and values of the `.env` in a folder; empty if there is no such file. Raises `EnvFileUnreadable`.

    A line is `NAME=value`, with or without `export` before it and quotes around the value. `#` begins a comment outside quotes,
    the last line for a name wins, and `$` has no special meaning.
    """
    path = folder / NAME
    try:
        if not path.is_file():
            return {}
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise EnvFileUnreadable(f"is over {_MAX_BYTES} bytes")
        return _parse(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise EnvFileUnreadable("is not UTF-8") from error
    except OSError as error:
        raise EnvFileUnreadable(error.strerror or "cannot be read") from error


def is_open_to_others(folder: Path) -> bool:
    """Whether anyone but the owner may read or write the `.env` in a folder."""
    try:
        return os.name == "posix" and bool((folder / NAME).stat().st_mode & _OTHERS)
    except OSError:
        return False


def _parse(text: str) -> dict[str, str]:
    found = {}
    for line in text.split("\n"):
        if entry := _LINE.fullmatch(line.rstrip()):
            found[entry.group(1)] = _value(entry.group(2))
    return found


def _value(written: str) -> str:
    quoted = _QUOTED.fullmatch(written)
    return quoted.group("value") if quoted else _COMMENT.sub("", written, count=1).strip()
