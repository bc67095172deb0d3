"""Points a command at the router, for `tandem run` and `tandem delegate --agent`."""

import os
from pathlib import Path

from router.cli.setup.facts import ask_codex, read_facts
from router.cli.setup.reach import ClientKey
from router.config.load import LoadedConfig
from router.connect import KEY
from router.connect.recipe import Facts, Recipe, known_clients, load_recipe
from router.connect.run import point

KEY_VARIABLE = "TANDEM_KEY"


def point_command(
    loaded: LoadedConfig, url: str, command: list[str], key: ClientKey | None, folder: Path
) -> tuple[list[str], dict[str, str]]:
    """The command, and variables that point it at the router. Files go into `folder`. Raises `Ended` for a refused key."""
    recipe = _find_recipe(command[0])
    codex = ask_codex() if recipe is not None and recipe.client == "codex" else ()
    facts = read_facts(loaded, url, codex, key)
    variables = _usual_variables(facts)
    if recipe is not None:
        command, added = point(recipe, facts, folder, command)
        variables |= added
    return command, variables


def _find_recipe(program: str) -> Recipe | None:
    recipes = (load_recipe(client) for client in known_clients())
    return next((recipe for recipe in recipes if recipe.command and recipe.command == os.path.basename(program)), None)


def _usual_variables(facts: Facts) -> dict[str, str]:
    """Variables that SDKs and most clients read. Existing keys stay if the router needs none."""
    names = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
    keys = {name: os.environ.get(name) or KEY for name in names}
    if facts["key_env"]:
        keys = dict.fromkeys((*names, facts["key_env"]), facts["key_value"])
    return {
        "OPENAI_BASE_URL": facts["base"],
        "OPENAI_API_BASE": facts["base"],
        "ANTHROPIC_BASE_URL": facts["url"],
        "TANDEM_URL": facts["url"],
        **keys,
    }
