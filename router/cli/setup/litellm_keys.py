"""Keys that only the litellm adapter can use: named by `tandem init` with what to install and which lines to write."""

import importlib.util
from collections.abc import Mapping

from router.cli.common import say
from router.config.faults import how_to_install
from router.config.presets import LibraryKey, Presets

_PAGE = "docs/how-to/use-real-models.md"


def say_litellm_keys(presets: Presets, values: Mapping[str, str]) -> bool:
    """Say which of these variables are set, and how to use them. False where none is."""
    found = [(row, name) for row in presets.by_litellm if (name := _find_variable(row, values))]
    if not found:
        return False
    for row, name in found:
        say(f"{name} is set: {row.title} is reached through litellm, with a target that you add yourself:")
        say(f"      {row.write(name)}")
        if row.options:
            say(f"  what else it needs: {_PAGE}")
    first = "" if importlib.util.find_spec("litellm") is not None else f"{how_to_install('litellm')}, then "
    say(f"  hint: {first}add the line under targets: of a tier in the config")
    if any("AZURE_API_KEY" in row.keys for row, _ in found):
        variables = "AZURE_OPENAI_API_KEY, AZURE_OPENAI_ENDPOINT and AZURE_OPENAI_DEPLOYMENT"
        say(f"  hint: Azure OpenAI works without litellm: set {variables}")
    return True


def _find_variable(row: LibraryKey, values: Mapping[str, str]) -> str:
    return next((name for name in row.keys if values.get(name, "").strip()), "")
