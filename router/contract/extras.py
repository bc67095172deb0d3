"""How to install packages into the installation that runs this. No hint names an installer anywhere else."""

import importlib.util
import os
import re
import sys
from importlib.metadata import requires
from pathlib import Path
from shlex import join, quote

PROJECT = "tandem-router"
_ROOT = Path(__file__).parents[2]


def how_to_install(extra: str) -> str:
    """The command that adds an extra: locked versions in a checkout and in the image, else the packages that it stands for."""
    if os.environ.get("TANDEM_IMAGE"):
        return f"docker build --build-arg EXTRAS={extra} -t tandem ."
    locks = _ROOT / "requirements"
    if not (locks / f"{extra}.txt").is_file():
        return _how_to_add(_packages_of(extra))
    if Path(sys.prefix) == _ROOT / ".venv":
        return f"make{'' if Path.cwd() == _ROOT else f' -C {quote(str(_ROOT))}'} setup-{extra}"
    return _how_to_add(["--require-hashes", "-r", str(locks / f"{extra}.txt")])


def _packages_of(extra: str) -> list[str]:
    """The requirements themselves, since an extra can only be asked for where the wheel came from."""
    found = (re.fullmatch(rf"([^;]+?)\s*;.*\bextra == ['\"]{extra}['\"].*", line) for line in requires(PROJECT) or ())
    return [match[1] for match in found if match]


def _how_to_add(packages: list[str]) -> str:
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        return join(["pipx", "inject", PROJECT, *packages])
    if importlib.util.find_spec("pip") is None:  # as in environments of uv
        return join(["uv", "pip", "install", "--python", sys.executable, *packages])
    return join([sys.executable, "-m", "pip", "install", *packages])
