"""Asking the installed Codex what it knows of its models: its prompts, tools and efforts."""

import json
import shutil
import subprocess

from router.contract.request import JsonObject

_ASK_SECONDS = 10.0
# What ships with the program comes first: without the flag, a catalogue of ours that is configured already is printed.
_WAYS = (("debug", "models", "--bundled"), ("debug", "models"))
_OUR_NAMES = ("auto", "fast", "deep")


def ask_codex(command: str = "codex") -> list[JsonObject]:
    """The entries of Codex's own catalogue; empty where it is not installed, or does not print them."""
    program = shutil.which(command)
    for arguments in _WAYS if program else ():
        try:
            told = subprocess.run(  # noqa: S603  the client that is about to be connected
                [str(program), *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_SECONDS, check=True
            ).stdout
            models = json.loads(told)["models"]
            found = [model for model in models if isinstance(model, dict) and model.get("slug") not in _OUR_NAMES]
        except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
            continue
        if found:
            return found
    return []
