"""What a client must know of the router: its address, its models and their windows, how to ask for its status line."""

import json
import os
import shlex
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from router.cli.address import url_of
from router.cli.common import say
from router.config.folders import state_folder
from router.config.load import LoadedConfig
from router.config.models import SHIPPED_MODELS
from router.connect import KEY
from router.connect.recipe import Facts
from router.connect.store import Store
from router.dialects.table import SPECS
from router.edge.catalogue import Catalogue
from router.sense.models import ModelNames

_ASK_SECONDS = 2.0


def read_facts(loaded: LoadedConfig, url: str | None) -> Facts | None:
    """What a client must know of the router, or None after saying why it cannot be told."""
    server = loaded.config.server
    if url is None and server.port == 0:
        say("server.port is 0, so the router's port is not known\n  hint: --url http://127.0.0.1:PORT")
        return None
    address = (url or url_of(server.host, server.port)).rstrip("/").removesuffix("/v1")
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        say(f"--url {url}: should be like http://127.0.0.1:4000")
        return None
    catalogue = (_ask(address) if url else None) or _own_catalogue(loaded)
    windows = {str(model["slug"]): str(model["context_window"]) for model in catalogue["models"]}
    status = [*_own_command(), "statusline", "--url", address]
    return {
        "url": address,
        "base": f"{address}/v1",
        "key": KEY,
        "window": windows["auto"],
        "window_fast": windows.get("fast", windows["auto"]),
        "window_deep": windows.get("deep", windows["auto"]),
        "catalogue": json.dumps(catalogue, indent=1) + "\n",
        "websockets": str(_serves_websockets()).lower(),
        "statusline": shlex.join(status),
    }


def open_store() -> Store:
    """The record of what `tandem connect` changed."""
    return Store(state_folder() / "connect")


def shell_here() -> str:
    """The person's shell, by its name."""
    return os.path.basename(os.environ.get("SHELL", ""))


def _serves_websockets() -> bool:
    """Whether some dialect is served over a WebSocket too: its spec says so."""
    return any(spec.has_socket for spec in SPECS.values())


def _own_catalogue(loaded: LoadedConfig) -> dict[str, list[dict[str, object]]]:
    targets = {plan.target.name: plan.target for plan in loaded.targets}
    told: dict[str, list[dict[str, object]]] = Catalogue(
        ModelNames(loaded.config.models, tuple(targets), SHIPPED_MODELS), targets
    ).codex()  # type: ignore[assignment]  # plain JSON
    return told


def _ask(address: str) -> dict[str, list[dict[str, object]]] | None:
    """The catalogue of a router that runs somewhere: its config need not be the one here."""
    try:
        url = f"{address}/v1/models?client_version=1"
        with urllib.request.urlopen(url, timeout=_ASK_SECONDS) as answer:  # noqa: S310  the router's own address
            told: dict[str, list[dict[str, object]]] = json.load(answer)
            return told if any(model.get("slug") == "auto" for model in told["models"]) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, urllib.error.URLError):
        say(f"no router answers at {address}: windows are taken from the config here")
        return None


def _own_command() -> list[str]:
    """How this command can be called from any folder."""
    called, beside = Path(sys.argv[0]), Path(sys.executable).parent / "tandem"
    if called.name == "tandem" and called.exists():
        return [str(called.absolute())]
    return [str(beside)] if beside.exists() else [sys.executable, "-m", "router.cli"]
