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
        say(f"{name} is set ({row.title}): init does not write targets for it, and adapter: litellm reaches it")
        say(f"  {row.write(name)}")
        if not row.takes_key:
            say(f"  it is passed to litellm only where options: of the target asks for it: {_PAGE}")
    if importlib.util.find_spec("litellm") is None:
        say(f"  hint: {how_to_install('litellm')}, then write such a line below targets: of a tier in the config")
    else:
        say("  hint: write such a line below targets: of a tier in the config")
    if any("AZURE_API_KEY" in row.keys for row, _ in found):
        say(
            "  hint: Azure OpenAI needs no litellm with AZURE_OPENAI_API_KEY, AZURE_OPENAI_ENDPOINT and AZURE_OPENAI_DEPLOYMENT"
        )
    return True


def _find_variable(row: LibraryKey, values: Mapping[str, str]) -> str:
    return next((name for name in row.keys if values.get(name, "").strip()), "")
