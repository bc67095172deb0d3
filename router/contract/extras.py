"""How to install the packages of an extra."""

import importlib.util
import sys
from pathlib import Path
from shlex import quote

_LOCKS = Path(__file__).parents[2] / "requirements"


def how_to_install(extra: str) -> str:
    """The command for the environment that runs this, whichever `pip` the shell finds: locked versions in a checkout."""
    python = quote(sys.executable)
    if (_LOCKS / f"{extra}.txt").is_file():
        return "make setup-litellm" if extra == "litellm" else f"{python} {quote(str(_LOCKS / 'install.py'))} {extra}"
    has_pip = importlib.util.find_spec("pip") is not None  # uv's environments have none
    return f"{f'{python} -m pip install' if has_pip else f'uv pip install --python {python}'} 'tandem-router[{extra}]'"
