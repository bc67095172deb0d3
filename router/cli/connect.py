"""`tandem connect`."""

import argparse
import difflib
import sys

from router.cli.address import is_listening
from router.cli.common import add_config_argument, command_name, load_or_report, say
from router.cli.setup.facts import open_store, read_facts, shell_here
from router.cli.setup.interview import confirm
from router.config.faults import close_to
from router.config.folders import NoHome
from router.connect.change import CannotConnect, Change, connect, pieces, plan_connection, plan_undo, undo
from router.connect.pointing import where_it_points
from router.connect.recipe import Facts, Recipe, known_clients, load_recipe
from router.connect.run import run_client
from router.connect.store import Busy, Store
from router.sessions.clients import NICKNAMES
from router.telemetry.colour import GREEN, RED, paint

EXAMPLES = (
    "connect",
    "connect codex",
    "connect claude-code --undo",
    "connect --run codex -- exec 'fix the typo'",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "client",
        nargs="?",
        metavar="CLIENT",
        help=f"one of {', '.join(known_clients())}; without it, the clients are listed",
    )
    parser.add_argument("arguments", nargs="*", metavar="-- ARGUMENT", help="with --run: what the client is given")
    add_config_argument(parser)
    parser.add_argument("--url", help="where the router is (default: server.host and server.port of the config)")
    parser.add_argument("--yes", action="store_true", help="change the files without asking")
    parser.add_argument("--undo", action="store_true", help="take everything out again; what others wrote stays")
    parser.add_argument("--print", action="store_true", help="print what would be in the files, and change nothing")
    parser.add_argument("--run", action="store_true", help="start the client pointed here, and change no file")


def run(arguments: argparse.Namespace) -> int:
    """Point a client here, or list the clients."""
    try:
        return _choose(arguments)
    except NoHome as error:
        say(f"there is no home folder, so there are no settings of a client\n  hint: set HOME, and {error} for our own record")
        return 2


def _choose(arguments: argparse.Namespace) -> int:
    if arguments.arguments and not arguments.run:
        say(f"{arguments.arguments[0]}: only --run takes arguments for the client")
        return 2
    if sum((arguments.undo, arguments.print, arguments.run)) > 1:
        say("give one of --undo, --print and --run")
        return 2
    store, shell = open_store(), shell_here()
    recipe = None
    if arguments.client is not None:
        try:
            recipe = load_recipe(NICKNAMES.get(arguments.client, arguments.client))
        except KeyError:
            hint = f"{close_to(arguments.client, (*known_clients(), *NICKNAMES))}known: {', '.join(known_clients())}"
            say(f'unknown client "{arguments.client}"\n  hint: {hint}')
            return 2
        if arguments.undo:
            return _undo(recipe, store, shell, asks=not arguments.yes)
    elif arguments.undo or arguments.print or arguments.run:
        say("name a client, as in tandem connect codex")
        return 2
    loaded = load_or_report(arguments.config)
    facts = None if loaded is None else read_facts(loaded, arguments.url)
    if facts is None:
        return 2
    if recipe is None:
        return _list(facts, store, shell)
    if arguments.run:
        return _run(recipe, facts, arguments.arguments)
    if arguments.print:
        return _print(recipe, facts, shell)
    return _connect(recipe, facts, store, shell, asks=not arguments.yes)


def _list(facts: Facts, store: Store, shell: str) -> int:
    """Every client: whether it is installed here, and where it points."""
    for client in known_clients():
        recipe = load_recipe(client)
        is_here = "" if not recipe.command else "installed" if recipe.is_installed else "not installed"
        print(f"{client:<12} {is_here:<14} {where_it_points(recipe, facts, store, shell)}")
    say(
        f"\n{command_name()} connect CLIENT points one at {facts['url']}; connect --run CLIENT starts it so and changes no file"
    )
    return 0


def _print(recipe: Recipe, facts: Facts, shell: str) -> int:
    for file, piece in pieces(recipe, facts, shell):
        print(f"# {file.find()}")
        for text in piece.values():
            print(text.strip("\n"))
    return 0


def _connect(recipe: Recipe, facts: Facts, store: Store, shell: str, *, asks: bool) -> int:
    try:
        with store.locked():
            changes = plan_connection(recipe, facts, store, shell)
            if not any(change.is_needed for change in changes):
                say(f"{recipe.name} already points here ({facts['url']})")
                return 0
            _show(changes)
            if asks and not confirm(f"Point {recipe.name} at {facts['url']}?"):
                return 1
            connect(recipe, changes, store)
        say(f"{recipe.name} points at {facts['url']}. To undo: {command_name()} connect {recipe.client} --undo")
        say(f"  To choose a tier: {recipe.choose}")
        if recipe.after:
            say(f"  {recipe.after}")
        if recipe.command and not recipe.is_installed:
            say(f"  {recipe.command} is not installed: {recipe.install}")
        if not is_listening(facts["url"]):
            say(f"  the router is not running: {command_name()} serve")
    except (CannotConnect, Busy, OSError) as error:
        return _say_why(error)
    return 0


def _undo(recipe: Recipe, store: Store, shell: str, *, asks: bool) -> int:
    try:
        with store.locked():
            changes = plan_undo(recipe, store, shell)
            if not any(change.is_needed for change in changes) and not store.load(recipe.client).entries:
                say(f"{recipe.name} was not pointed here by tandem connect: nothing to undo")
                return 0
            _show(changes)
            if asks and any(change.is_needed for change in changes) and not confirm(f"Undo this for {recipe.name}?"):
                return 1
            kept = undo(recipe, changes, store)
        for change in changes:
            for note in change.notes:
                say(f"{change.path}: {note}")
        say(f"{recipe.name} no longer points here")
        for copy in kept:
            say(f"  a copy of the file as it was before: {copy}")
    except (CannotConnect, Busy, OSError) as error:
        return _say_why(error)
    return 0


def _run(recipe: Recipe, facts: Facts, arguments: list[str]) -> int:
    if recipe.run is None:
        say(f'{recipe.name} cannot be started\n  hint: eval "$({command_name()} connect {recipe.client} --print)"')
        return 2
    if not is_listening(facts["url"]):
        say(f"the router is not running at {facts['url']}: {command_name()} serve")
        return 1
    try:
        return run_client(recipe, facts, arguments)
    except FileNotFoundError:
        say(f"{recipe.command} is not installed: {recipe.install}")
        return 127


def _say_why(error: Exception) -> int:
    """Say in one line why nothing was changed."""
    if isinstance(error, OSError):
        say(f"{error.filename or 'the record of tandem connect'} cannot be written: {error.strerror or error}")
    else:
        say(str(error))
    say("nothing was changed")
    return 1


def _show(changes: list[Change]) -> None:
    """The difference, as a patch."""
    for change in changes:
        if not change.is_needed:
            continue
        before, after = ((raw or b"").decode("utf-8", "replace").splitlines() for raw in (change.before, change.after))
        say(f"{change.path}{' (new)' if change.before is None else ' (removed)' if change.after is None else ''}")
        if change.format == "own":  # long, and nobody's but ours
            continue
        for line in list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]:
            colour = {"+": GREEN, "-": RED}.get(line[:1])
            say(f"  {paint(line, colour, sys.stderr) if colour else line}")
