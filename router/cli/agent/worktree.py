"""The git side of delegated work: which commit it begins at, and what has to be known of the repository."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_MISLEADING = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
)
"""Set where git itself runs a command, as in a hook: git, and the agent's git, would work on another repository than meant."""


class GitRefused(Exception):
    """Work cannot begin here. The text says why."""


class Repository(NamedTuple):
    """The repository of a folder, as it is now."""

    root: Path
    inside: str
    """Where the folder is in it; empty at its root."""
    commit: str
    uncommitted: int
    """Files that differ from the commit, or are not in it."""


def find_repository(folder: Path) -> Repository:
    """The repository that a folder belongs to. Raises `GitRefused`."""
    root = _ask(folder, "rev-parse", "--show-toplevel")
    if not root:
        raise GitRefused(f"{folder} has no files of a git repository: an agent works in a worktree of one")
    try:
        commit = _ask(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    except GitRefused as error:
        raise GitRefused(f"{root} has no commit yet, and an agent begins at the newest one") from error
    inside = _ask(folder, "rev-parse", "--show-prefix")
    changed = _ask(folder, "status", "--porcelain").splitlines()
    return Repository(Path(root), inside.rstrip("/"), commit, len(changed))


def without_git(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which git finds the repository by its folder."""
    return {name: value for name, value in environment.items() if name not in _MISLEADING}


def _ask(folder: Path, *arguments: str) -> str:
    """What git answers. Raises `GitRefused`."""
    try:
        asked = subprocess.run(  # noqa: S603  fixed arguments
            ["git", "-C", str(folder), *arguments],  # noqa: S607  the person's own git
            env=without_git(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise GitRefused("git is not installed") from error
    if asked.returncode:
        why = asked.stderr.decode("utf-8", "replace").strip().removeprefix("fatal: ")
        raise GitRefused(f"{folder}: {why.splitlines()[0] if why else 'git failed'}")
    return os.fsdecode(asked.stdout).removesuffix("\n")
