"""Finding and reading `config.yaml` and the `.env` next to it, which has values for `env:NAME`.

An unreadable file is a fault, never a reason to use the simulated tiers.
"""

import os
import pwd
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from router.config.faults import ConfigError, Fault
from router.config.folders import NoHome, state_folder, user_folder

_NAME, _MISSPELT = "config.yaml", "config.yml"
_SCHEMA = "router/config/config.schema.json"
"""As in the default file: relative to the checkout."""
BUILT_IN = "the built-in default"
"""The name of the config that is used without a file."""
MAX_BYTES = 1 << 20
_OURS = re.compile(rb"^[\"']?tiers[\"']?\s*:", re.MULTILINE)
_ELSEWHERE = "name another with --config"
_OWN_HOME = "set HOME to a folder of yours, or name a config with --config"
ENV_FILE = ".env"
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_QUOTED = re.compile(r"""(?P<quote>['"])(?P<value>.*?)(?P=quote)\s*(?:#.*)?""")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_OTHERS = 0o077
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def find_config(explicit: str | None) -> Path | None:
    """`--config`, `$TANDEM_CONFIG`, `./config.yaml`, the user's config folder; None for the default with simulated tiers.

    Anything of that name counts, even a folder or a broken link. Raises `ConfigError` for a `config.yml`.
    """
    named = explicit or os.environ.get("TANDEM_CONFIG")
    if named:
        return expand(named)
    if _is_there(Path(_NAME)):
        return Path(_NAME)
    _refuse_misspelt(Path(_MISSPELT), is_ours=False)
    try:
        folder = user_folder()
    except NoHome:
        return None
    if _is_there(folder / _NAME):
        return folder / _NAME
    _refuse_misspelt(folder / _MISSPELT, is_ours=True)
    return None


def _is_there(path: Path) -> bool:
    """Raises `ConfigError` if that is unknown."""
    try:
        path.lstat()
    except PermissionError as error:
        problem = f"{path.parent} cannot be searched: {error.strerror}"
        raise ConfigError(str(path), [Fault("file", problem, _OWN_HOME)]) from error
    except OSError:
        return False
    return True


def _refuse_misspelt(path: Path, *, is_ours: bool) -> None:
    """Refuse our `config.yml`, which would be ignored. Outside our folder it may be another program's."""
    if not _is_there(path) or not (is_ours or _has_tiers(path)):
        return
    hint = f"mv {path} {path.with_name(_NAME)}"
    raise ConfigError(str(path), [Fault("file", f"Tandem reads {_NAME}, not {_MISSPELT}", hint)])


def _has_tiers(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return _OURS.search(file.read(MAX_BYTES)) is not None
    except OSError:
        return False


def expand(path: str) -> Path:
    return Path(os.path.expanduser(path))


def default_text() -> str:
    """The default config, with a first line that leads editors to its schema."""
    text = Path(__file__).with_name("default.yaml").read_text(encoding="utf-8")
    return text.replace(f"$schema={_SCHEMA}", f"$schema={schema_path().as_uri()}", 1)


def schema_path() -> Path:
    return Path(__file__).resolve().with_name(Path(_SCHEMA).name)


def read_config(path: Path | None) -> tuple[str, str, Path]:
    """The text, its name in messages, and the folder that its paths begin at. Raises `ConfigError`."""
    if path is None:
        source = BUILT_IN
        try:
            return default_text(), source, state_folder()
        except NoHome as error:
            problem = Fault("home", "there is no home folder to keep the ledger in", f"set HOME or {error}, or use --config")
            raise ConfigError(source, [problem]) from error
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise ConfigError(str(path), [_not_a_file(path, is_folder=stat.S_ISDIR(mode))])
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        return _decode(path, raw), str(path), path.resolve().parent
    except (OSError, RuntimeError) as error:  # RuntimeError: circular links
        raise ConfigError(str(path), [_unreadable(path, error)]) from error


def _not_a_file(path: Path, *, is_folder: bool) -> Fault:
    if not is_folder:
        return Fault("file", "is not a regular file", _ELSEWHERE)
    inner = path / _NAME
    hint = (
        f"--config {inner}" if inner.is_file() else "Docker creates a folder when the file to mount does not exist: remove it"
    )
    return Fault("file", "is a folder, not a file", hint)


def _unreadable(path: Path, error: Exception) -> Fault:
    if isinstance(error, FileNotFoundError) and path.is_symlink():
        return Fault("file", f"is a link to {os.readlink(path)}, which does not exist", f"repair the link, or {_ELSEWHERE}")
    if isinstance(error, PermissionError):
        return _closed(path, error)
    return Fault("file", getattr(error, "strerror", None) or "cannot be read", _ELSEWHERE)


def _closed(path: Path, error: PermissionError) -> Fault:
    try:
        found = path.stat()
    except OSError:
        return Fault("file", error.strerror or "cannot be read", _OWN_HOME)
    owner, reader = _user(found.st_uid), _user(os.geteuid())
    whose = f"it belongs to {owner} with mode {found.st_mode & 0o777:03o}, and this is {reader}"
    return Fault("file", f"{error.strerror}: {whose}", f"sudo chown {reader} {path}, or {_ELSEWHERE}")


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _decode(path: Path, raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(raw) > MAX_BYTES and error.start >= MAX_BYTES - 4:
            return raw.decode("utf-8", "replace")  # a character was cut in two: the text is too long anyway
        line = raw[: error.start].count(b"\n") + 1
        problem = "is UTF-16" if raw.startswith(_UTF_16) else f"is not UTF-8 (line {line})"
        raise ConfigError(str(path), [Fault("file", problem, "save it as UTF-8")]) from error


class EnvFileUnreadable(Exception):
    """The file exists but cannot be read."""


def read_env_file(folder: Path) -> Mapping[str, str]:
    """Empty if there is no `.env`. Raises `EnvFileUnreadable`.

    A line is `NAME=value`, optionally with `export` and quotes. `#` begins a comment outside quotes, the last line for a name
    wins, and `$` has no special meaning.
    """
    path = folder / ENV_FILE
    try:
        if not path.is_file():
            return {}
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise EnvFileUnreadable(f"is over {MAX_BYTES} bytes")
        return _parse_env(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise EnvFileUnreadable("is not UTF-8") from error
    except OSError as error:
        raise EnvFileUnreadable(error.strerror or "cannot be read") from error


def is_open_to_others(folder: Path) -> bool:
    try:
        return os.name == "posix" and bool((folder / ENV_FILE).stat().st_mode & _OTHERS)
    except OSError:
        return False


def _parse_env(text: str) -> dict[str, str]:
    found = {}
    for line in text.split("\n"):
        if entry := _LINE.fullmatch(line.rstrip()):
            found[entry.group(1)] = _env_value(entry.group(2))
    return found


def _env_value(written: str) -> str:
    quoted = _QUOTED.fullmatch(written)
    return quoted.group("value") if quoted else _COMMENT.sub("", written, count=1).strip()
