"""What a client must know of the router."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from router.cli import Ended
from router.cli.common import url_in_use
from router.cli.setup.reach import ClientKey, ask_router
from router.config.folders import state_folder
from router.config.load import LoadedConfig
from router.config.models import SHIPPED_MODELS
from router.connect import KEY
from router.connect.key import key_facts, with_key
from router.connect.recipe import Facts, Recipe, expand, known_clients, load_recipe
from router.connect.run import point
from router.connect.store import Store
from router.contract.request import JsonObject
from router.contract.words import Tier
from router.dialects.table import SPECS
from router.edge.catalogue import TITLES, Catalogue, StoredEntries
from router.sense.models import ModelNames
from router.sessions.clients.client import ListedModel
from router.sessions.clients.codex import STORED_MODELS, choose_entries, write_models

_CLIENT_SECONDS = 10.0
# Bundled entries first: without the flag, Codex prints a catalogue of ours if one is configured.
_WAYS = (("debug", "models", "--bundled"), ("debug", "models"))
_UNFIT = re.compile(r"[\x00-\x20\x7f\"'\\\\$`{}<>]")
"""Not in addresses, and with another meaning in clients' files."""

_WITHOUT_TEMPERATURE = re.compile(r"(?:^|/)(?:gpt-[5-9]|o\d)")
"""Models that refuse a temperature; aider sends them none either."""


def read_facts(
    loaded: LoadedConfig,
    url: str | None,
    codex: Sequence[JsonObject] = (),
    key: ClientKey | None = None,
    *,
    asks: bool = True,
) -> Facts:
    """Facts for a client. Raises `Ended` if the address is unknown or the router refuses the key.

    `codex` is the installed Codex's catalogue; without it, that of its last connection is used. A router at another address, or
    with keys, is asked unless `asks` is false.
    """
    address = _find_address(loaded, url)
    own = {plan.target.name: plan for plan in loaded.targets}
    catalogue = _own_catalogue(loaded)
    listed = ask_router(address, key) if asks and (url or key is not None) else None
    # Another router may have another config: its models are known only if it has ours.
    is_ours = listed is None or set(own) <= set(listed)
    windows = {name: catalogue.window(name) for name in TITLES if catalogue.lists(name)} if listed is None else listed
    behind = _models_behind(loaded) if is_ours else dict.fromkeys(TITLES, "")
    known = choose_entries(codex, behind) or StoredEntries(STORED_MODELS)()
    status = [*own_command(), "statusline", "--url", address]
    facts = {
        "url": address,
        "base": f"{address}/v1",
        **key_facts(),
        "window": str(windows["auto"]),
        "window_fast": str(windows.get("fast", windows["auto"])),
        "window_deep": str(windows.get("deep", windows["auto"])),
        "catalogue": _write_catalogue(known, windows, catalogue if is_ours else None),
        "codex_models": json.dumps(known),
        # For clients that take prompt, tools and limits from a model's name.
        "auto": behind["deep"] if behind["deep"] and catalogue.means_auto(behind["deep"]) else "auto",
        "claude_models": _claude_models(behind),
        "aider_temperature": str(_WITHOUT_TEMPERATURE.search(behind["deep"]) is None).lower(),
        **_copilot_facts(behind["deep"], loaded if is_ours else None),
        "websockets": str(any(spec.has_socket for spec in SPECS.values())).lower(),
        "statusline": shlex.join(status),
        "logins": " ".join(sorted(logins_taken(loaded))) if is_ours else "",
    }
    return facts if key is None else with_key(facts, *key)


def logins_taken(loaded: LoadedConfig) -> frozenset[str]:
    """The vendors whose plans are targets."""
    return frozenset(str(vendor) for plan in loaded.targets if plan.target.is_plan for vendor in plan.target.accepts_keys_of)


def mcp_facts(facts: Facts) -> Facts:
    """How a client starts `tandem mcp`. `mcp_variables` is for clients that pass on only named variables."""
    key = facts["key_env"]
    command = [*own_command(), "mcp", "--url", facts["url"], *(["--key-env", key] if key else [])]
    return {
        "mcp": "tandem",
        "mcp_program": command[0],
        "mcp_arguments": json.dumps(command[1:]),
        "mcp_command": json.dumps(command),
        "mcp_variables": json.dumps(["XDG_STATE_HOME", *([key] if key else [])]),
    }


def _find_address(loaded: LoadedConfig, url: str | None) -> str:
    server = loaded.config.server
    if url is None and server.port == 0:
        raise Ended(2, "server.port is 0, so the router's port is not known\n  hint: --url http://127.0.0.1:PORT")
    address = (url or url_in_use(loaded)).rstrip("/").removesuffix("/v1")
    try:
        parts = urlsplit(address)
        is_fit = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not _UNFIT.search(address)
    except ValueError:
        is_fit = False
    if not is_fit:
        raise Ended(2, f"--url {url!r}: should be like http://127.0.0.1:4000")
    return address


def _models_behind(loaded: LoadedConfig) -> dict[str, str]:
    """The provider's model for each of our names; for `auto`, deep's."""
    first = {tier: next((p.endpoint.model for p in loaded.targets if p.target.tier is tier), "") for tier in Tier}
    return {"auto": first[Tier.DEEP], "fast": first[Tier.FAST], "deep": first[Tier.DEEP]}


def _claude_models(behind: Mapping[str, str]) -> str:
    """Claude Code's models behind our names, in its own form; empty if deep is none of them.

    A model can be named once: `[1m]`, Claude Code's request for the long window, makes a second name.
    """
    deep, fast = behind["deep"], behind["fast"]
    if not deep.startswith("claude-"):
        return ""
    told = {deep: "auto", f"{deep}[1m]": "deep"}
    if fast.startswith("claude-") and fast != deep:
        told[fast] = "fast"
    return json.dumps(told)


def _copilot_facts(model: str, own: LoadedConfig | None) -> Facts:
    """How the Copilot CLI speaks to the model behind `auto`: prompt, tools and limits follow the model's name."""
    spoken = next((plan.target.speaks for plan in own.targets if plan.target.tier is Tier.DEEP), ()) if own is not None else ()
    is_anthropic = model.startswith("claude-")
    return {
        "copilot_path": "" if is_anthropic else "/v1",
        "copilot_type": "anthropic" if is_anthropic else "openai",
        "copilot_wire": "responses" if any(SPECS[dialect].reads_catalogue for dialect in spoken) else "completions",
        "copilot_model": model or "auto",
    }


def _write_catalogue(known: Mapping[str, JsonObject], windows: Mapping[str, int], own: Catalogue | None) -> str:
    """`own` is None for a router with another config."""
    ours = {model.name: model for model in own.tiers()} if own is not None else {}
    models = [
        ours.get(name, ListedModel(name, *TITLES[name], windows[name]))._replace(window_tokens=windows[name])
        for name in TITLES
        if name in windows
    ]
    written = write_models(known, models)
    return json.dumps(written, indent=1) + "\n" if written["models"] else ""


def open_store() -> Store:
    return Store(state_folder() / "connect")


def shell_here() -> str:
    return os.path.basename(os.environ.get("SHELL", ""))


def _own_catalogue(loaded: LoadedConfig) -> Catalogue:
    targets = {plan.target.name: plan.target for plan in loaded.targets}
    names = ModelNames(loaded.config.models, tuple(targets), SHIPPED_MODELS)
    return Catalogue(names, targets, loaded.config.window_of_auto)


def own_command() -> list[str]:
    """From any folder."""
    called, beside = Path(sys.argv[0]), Path(sys.executable).parent / "tandem"
    if called.name == "tandem" and called.exists():
        return [str(called.absolute())]
    return [str(beside)] if beside.exists() else [sys.executable, "-P", "-m", "router.cli"]


def notice_login(recipe: Recipe) -> bool:
    """Whether a client is logged in with a plan, by its own report; its login itself is not read.

    A client without a command for it may take the words for a prompt, so its help must name the command.
    """
    login, program = recipe.login, shutil.which(recipe.command)
    if login is None or not any(expand(path).exists() for path in (login.traces, login.file)):
        return False
    *group, status = login.status
    if program is None or not re.search(rf"^\s+{status}\b", _ask_client(program, *group, "--help"), re.MULTILINE):
        return expand(login.file).exists()
    return re.search(login.says, _ask_client(program, *login.status)) is not None


def _ask_client(program: str, *arguments: str) -> str:
    """What it prints; empty if it does not end in time."""
    try:
        told = subprocess.run(  # noqa: S603  the client to be connected
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_CLIENT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.stdout.decode("utf-8", "replace")


def ask_codex(command: str = "codex") -> list[JsonObject]:
    """Empty if Codex is not installed or does not print its catalogue."""
    program = shutil.which(command)
    for arguments in _WAYS if program else ():
        try:
            told = subprocess.run(  # noqa: S603  the client to be connected
                [str(program), *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=_CLIENT_SECONDS, check=True
            ).stdout
            models = json.loads(told)["models"]
            found = [model for model in models if isinstance(model, dict) and model.get("slug") not in TITLES]
        except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
            continue
        if found:
            return found
    return []


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
