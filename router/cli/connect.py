"""`tandem connect`."""

import argparse
import difflib
import sys

from router.cli import Ended
from router.cli.common import add_config_argument, add_yes_argument, command_name, init_command, load_in_use, say
from router.cli.routers import is_listening
from router.cli.service import find_service
from router.cli.service import run as run_service
from router.cli.setup.facts import ask_codex, logins_taken, mcp_facts, notice_login, open_store, read_facts, shell_here
from router.cli.setup.interview import confirm, offer
from router.cli.setup.reach import ClientKey, read_key, warn_if_readable
from router.config.faults import close_to
from router.config.folders import NoHome
from router.config.load import LoadedConfig
from router.connect.change import (
    CannotConnect,
    Change,
    connect,
    pieces,
    plan_connection,
    plan_undo,
    plan_undo_without_record,
    undo,
)
from router.connect.pointing import address_pattern, where_it_points
from router.connect.recipe import Facts, Login, Recipe, known_clients, load_recipe
from router.connect.run import run_client
from router.connect.store import Busy, Store
from router.sessions.clients import NICKNAMES
from router.sessions.clients.codex import STORED_MODELS
from router.telemetry.colour import GREEN, RED, paint

TAKES_REST = True
_PAGE = "docs/use/subscription.md"
EXAMPLES = (
    "connect",
    "connect codex",
    "connect --mcp claude-code",
    "connect claude-code --keep-login",
    "connect claude-code --undo",
    "connect --run codex --url http://127.0.0.1:4001 -- exec 'fix the typo'",
    "connect codex --url https://router.example --key-env TANDEM_KEY",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "client",
        nargs="?",
        metavar="CLIENT",
        help=f"one of {', '.join(known_clients())}; without it, list them",
    )
    parser.add_argument("arguments", nargs="*", metavar="-- ARGUMENT", help="with --run: arguments for the client")
    add_config_argument(parser)
    parser.add_argument("--url", help="where the router is (default: where it runs, else server.host and server.port)")
    parser.add_argument(
        "--key-env",
        metavar="NAME",
        help="the variable with your key. Clients refer to it by name; the few that cannot get the key itself",
    )
    parser.add_argument(
        "--mcp",
        action="store_true",
        help="also give the client the tools of tandem mcp",
    )
    parser.add_argument(
        "--keep-login",
        action=argparse.BooleanOptionalAction,
        help="keep the client's login with a plan (billing: plan)",
    )
    add_yes_argument(parser, ": change the files")
    parser.add_argument("--undo", action="store_true", help="undo what it changed")
    parser.add_argument("--print", action="store_true", help="print what would be written, and change no file")
    parser.add_argument("--run", action="store_true", help="start the client connected, changing no file")


def run(arguments: argparse.Namespace) -> int:
    _refuse_misuse(arguments)
    try:
        if arguments.client is None:
            return _list(read_facts(_load(arguments), arguments.url, key=read_key(arguments.key_env)))
        recipe = _find_recipe(arguments.client)
        return _undo(recipe, arguments) if arguments.undo else _point(recipe, arguments)
    except NoHome as error:
        hint = f"set HOME, and {error} for Tandem's record"
        raise Ended(2, f"no home folder, so the client's settings cannot be found\n  hint: {hint}") from error


def _refuse_misuse(arguments: argparse.Namespace) -> None:
    """Raises `Ended` for options that contradict each other."""
    if arguments.arguments and not arguments.run:
        raise Ended(2, f"{arguments.arguments[0]}: only --run takes arguments for the client")
    if sum((arguments.undo, arguments.print, arguments.run)) > 1:
        raise Ended(2, "use only one of --undo, --print and --run")
    if arguments.keep_login is not None and arguments.undo:
        raise Ended(2, "--undo takes no --keep-login: a login stays as it is")
    if arguments.mcp and (arguments.undo or arguments.run):
        why = "--undo removes the tools together with the connection" if arguments.undo else "--run changes no file"
        raise Ended(2, f"--mcp cannot be used with --{'undo' if arguments.undo else 'run'}: {why}")
    if arguments.client is None and (
        arguments.undo or arguments.print or arguments.run or arguments.mcp or arguments.keep_login
    ):
        raise Ended(2, "name a client, as in tandem connect codex")


def _find_recipe(client: str) -> Recipe:
    try:
        return load_recipe(NICKNAMES.get(client, client))
    except KeyError:
        hint = f"{close_to(client, (*known_clients(), *NICKNAMES))}known: {', '.join(known_clients())}"
        raise Ended(2, f'unknown client "{client}"\n  hint: {hint}') from None


def _load(arguments: argparse.Namespace) -> LoadedConfig:
    return load_in_use(arguments.config, arguments.url, needs_keys=False)


def _point(recipe: Recipe, arguments: argparse.Namespace) -> int:
    loaded, key, store = _load(arguments), read_key(arguments.key_env), open_store()
    recipe = _choose_login(recipe, loaded, store, arguments)
    _check_key(recipe, loaded, key, arguments)
    facts = read_facts(loaded, arguments.url, ask_codex() if recipe.lists_models else (), key)
    if recipe.keeps_login:
        warn_if_readable(facts["url"], "login")
    if arguments.run:
        return _run(recipe, facts, arguments.arguments)
    if _wants_mcp(recipe, store, arguments):
        facts = {**facts, **mcp_facts(facts)}
    return _print(recipe, facts) if arguments.print else _connect(recipe, facts, store, arguments)


def _choose_login(recipe: Recipe, loaded: LoadedConfig, store: Store, arguments: argparse.Namespace) -> Recipe:
    """The recipe that keeps the client's login, if that is meant. Raises `Ended`."""
    login, wanted = recipe.login, arguments.keep_login
    if login is None:
        if wanted:
            able = ", ".join(client for client in known_clients() if load_recipe(client).login)
            raise Ended(2, f"{recipe.name} has no login that the router could pass on\n  hint: clients that have one: {able}")
        return recipe
    try:
        record = store.load(recipe.client)
    except OSError as error:
        raise _say_why(error) from error
    has_target = login.vendor in logins_taken(loaded)
    if wanted is None and record.entries:
        wanted = record.keeps_login
    if wanted is None:
        wanted = notice_login(recipe) and _asks_for_login(recipe, login, arguments, has_target=has_target)
    elif wanted and not notice_login(recipe):
        say(f"{recipe.name} is not logged in with a plan: {login.log_in}")
    if not wanted:
        return recipe
    if not has_target and arguments.url is None:
        hint = f"{init_command()} --plan {login.plan} writes one ({_PAGE}); --no-keep-login connects it without"
        raise Ended(2, f"the config has no target for the login of {recipe.name}\n  hint: {hint}")
    if arguments.run and record.entries and not record.keeps_login:
        hint = f"{command_name()} connect {recipe.client} --keep-login changes that"
        raise Ended(2, f"the settings of {recipe.name} point it here without its login\n  hint: {hint}")
    return login.kept


def _asks_for_login(recipe: Recipe, login: Login, arguments: argparse.Namespace, *, has_target: bool) -> bool:
    """Which connection is meant, for a client that is logged in: by the config and, on a terminal, by the person."""
    if not has_target:
        say(f"{recipe.name} is logged in with a plan. Connected like this it does not use the plan, until --undo.")
        say(f"  To use it through the router: {init_command()} --plan {login.plan} ({_PAGE})")
        return False
    if not (arguments.yes or arguments.print or arguments.run):
        return offer(f"{recipe.name} is logged in with a plan. Keep this login, for the router to pass on?", usual=True)
    say(f"{recipe.name} is logged in with a plan and keeps this login (--no-keep-login connects it without)")
    return True


def _wants_mcp(recipe: Recipe, store: Store, arguments: argparse.Namespace) -> bool:
    """Whether MCP tools are asked for or were before. Raises `Ended`."""
    if arguments.mcp and not recipe.takes_mcp:
        able = ", ".join(client for client in known_clients() if load_recipe(client).takes_mcp)
        hint = f"it can to {able}. Other clients that speak MCP need its command: {command_name()} mcp"
        raise Ended(2, f"tandem connect cannot add MCP tools to {recipe.name}\n  hint: {hint}")
    try:
        return recipe.takes_mcp and (arguments.mcp or store.load(recipe.client).has_mcp)
    except OSError as error:
        raise _say_why(error) from error


def _check_key(recipe: Recipe, loaded: LoadedConfig, key: ClientKey | None, arguments: argparse.Namespace) -> None:
    if key is None:
        if loaded.keys is not None and arguments.url is None:
            hint = "put your key into an environment variable, then --key-env NAME"
            raise Ended(2, f"the router's config asks callers for a key\n  hint: {hint}")
        return
    if key.value or arguments.print:
        return
    if arguments.run:
        raise Ended(2, f"{key.variable} is not set\n  hint: export {key.variable}=tdm_…")
    if recipe.holds_key:
        hint = f"export {key.variable}=tdm_…, then run this again"
        raise Ended(2, f"{recipe.name} can refer to no variable, so its file needs the key itself\n  hint: {hint}")


def _list(facts: Facts) -> int:
    store, shell = open_store(), shell_here()
    for client in known_clients():
        recipe = load_recipe(client)
        is_here = "" if not recipe.command else "installed" if recipe.is_installed else "not installed"
        print(f"{client:<12} {is_here:<14} {where_it_points(recipe, facts, store, shell)}")
    say(
        f"\n{command_name()} connect CLIENT connects it to {facts['url']}; "
        "connect --run CLIENT starts it without changing any file"
    )
    return 0


def _print(recipe: Recipe, facts: Facts) -> int:
    # Keys are never printed: a variable's name stands for them.
    facts = {**facts, "key_value": facts["shell_key"], "own_key": facts["own_key"] and facts["shell_key"]}
    for file, piece in pieces(recipe, facts, shell_here()):
        print(f"# {file.find()}")
        for text in piece.values():
            print(text.strip("\n"))
    return 0


def _connect(recipe: Recipe, facts: Facts, store: Store, arguments: argparse.Namespace) -> int:
    try:
        with store.locked():
            changes = plan_connection(recipe, facts, store, shell_here())
            if not any(change.is_needed for change in changes):
                say(f"{recipe.name} is already connected ({facts['url']})")
                return 0
            _show(changes, facts["key_value"] if facts["key_env"] else "")
            if not arguments.yes and not confirm(f"Point {recipe.name} at {facts['url']}?"):
                return 1
            if recipe.lists_models and facts["catalogue"]:
                store.keep_own(recipe.client, STORED_MODELS.name, facts["codex_models"])
            elif recipe.keeps_login:
                store.drop_own(recipe.client, STORED_MODELS.name)
            connect(recipe, changes, store, facts["key_env"], has_mcp="mcp" in facts)
    except (CannotConnect, Busy, OSError) as error:
        raise _say_why(error) from error
    _say_what_follows(recipe, facts)
    return _say_when_away(recipe, facts["url"], arguments)


def _say_when_away(recipe: Recipe, url: str, arguments: argparse.Namespace) -> int:
    """What happens while the router is not running, and an offer to have it started."""
    service, tandem = find_service() if arguments.url is None else None, command_name()
    if service is not None and service.is_installed:
        say(f"  The service starts the router {service.starts}.")
        return 0
    say(f"  While no router is running there, {recipe.name} waits a minute or more before it reports an error.")
    if not is_listening(url):
        say(f"  None is running now. To start it: {tandem} serve")
    if service is None:
        return 0
    if not arguments.yes and offer(f"Install a service that starts it {service.starts}?"):
        return run_service(argparse.Namespace(action="install", config=arguments.config, print=False))
    say(f"  To have it started {service.starts}: {tandem} service install")
    return 0


def _say_what_follows(recipe: Recipe, facts: Facts) -> None:
    say(f"{recipe.name} is connected to {facts['url']}. To undo: {command_name()} connect {recipe.client} --undo")
    if recipe.keeps_login:
        say("  It keeps its login. The router passes it to the plan's own vendor, and where accepts_keys_of names it.")
    say(f"  To choose a tier: {recipe.choose}")
    for line in recipe.after.splitlines():
        say(f"  {line}")
    if "mcp" in facts:
        say("  It has tools to delegate tasks and to collect their results: ask it to delegate something.")
    if facts["key_env"]:
        _say_where_the_key_is(recipe, facts["key_env"])
    if recipe.command and not recipe.is_installed:
        say(f"  {recipe.command} is not installed: {recipe.install}")
    if recipe.lists_models and facts["catalogue"]:
        say("  Its prompt and tools are copied from the installed Codex: run this again after an upgrade.")
    elif recipe.lists_models:
        say("  Codex did not print its models (codex debug models): its context windows are not set, its prompt is its own.")
        say(f"  To set them: {command_name()} connect codex, once it is installed or upgraded")


def _say_where_the_key_is(recipe: Recipe, variable: str) -> None:
    if not recipe.holds_key:
        say(f"  It reads the key from {variable}, which must be set where it is started.")
        return
    places = ", ".join(str(file.find()) for file in recipe.files if file.holds_key)
    say(f"  It can refer to no variable, so the key itself is in {places}, which only you can read.")
    say("  Run this again when the key changes.")


def _undo(recipe: Recipe, arguments: argparse.Namespace) -> int:
    store, shell = open_store(), shell_here()
    try:
        with store.locked():
            changes = plan_undo(recipe, store, shell)
            is_known = bool(store.load(recipe.client).entries)
            if not is_known:
                changes = _plan_without_record(recipe, shell, arguments) or changes
            is_needed = any(change.is_needed for change in changes)
            if not is_known and not is_needed:
                say(f"{recipe.name} was not connected by tandem connect: nothing to undo")
                return 0
            if not is_known:
                say("the record of what tandem connect changed is missing, so only settings known to be Tandem's are removed;")
                say("  settings of yours that it had replaced are not restored")
            _show(changes)
            if is_needed and not arguments.yes and not confirm(f"Undo this for {recipe.name}?"):
                return 1
            kept = undo(recipe, changes, store)
        for change in changes:
            for note in change.notes:
                say(f"{change.path}: {note}")
        say(f"{recipe.name} is no longer connected")
        for copy in kept:
            say(f"  a copy of the file as it was before: {copy}")
    except (CannotConnect, Busy, OSError) as error:
        raise _say_why(error) from error
    return 0


def _plan_without_record(recipe: Recipe, shell: str, arguments: argparse.Namespace) -> list[Change]:
    try:
        facts = read_facts(_load(arguments), arguments.url, key=read_key(arguments.key_env), asks=False)
        facts = {**facts, **mcp_facts(facts)}
    except Ended as end:
        say(end.text)
        return []
    return plan_undo_without_record(recipe, facts, shell, address_pattern(facts["url"]))


def _run(recipe: Recipe, facts: Facts, arguments: list[str]) -> int:
    if recipe.run is None:
        raise Ended(2, f'{recipe.name} cannot be started\n  hint: eval "$({command_name()} connect {recipe.client} --print)"')
    if not is_listening(facts["url"]):
        raise Ended(1, f"the router is not running at {facts['url']}: {command_name()} serve")
    try:
        return run_client(recipe, facts, arguments)
    except FileNotFoundError:
        say(f"{recipe.command} is not installed: {recipe.install}")
        return 127
    except OSError as error:
        say(f"{recipe.command}: {error.strerror or error}")
        return 126


def _say_why(error: Exception) -> Ended:
    why = str(error)
    if isinstance(error, OSError):
        why = f"{error.filename or 'the record of tandem connect'} cannot be used: {error.strerror or error}"
    return Ended(1, f"{why}\nnothing was changed")


def _show(changes: list[Change], key: str = "") -> None:
    """The key is hidden."""
    for change in changes:
        if not change.is_needed:
            continue
        before, after = ((raw or b"").decode("utf-8", "replace").splitlines() for raw in (change.before, change.after))
        say(f"{change.path}{' (new)' if change.before is None else ' (removed)' if change.after is None else ''}")
        if change.format == "own":  # long, and only ours
            continue
        for shown in list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]:
            line = shown.replace(key, "***") if key else shown
            colour = {"+": GREEN, "-": RED}.get(line[:1])
            say(f"  {paint(line, colour, sys.stderr) if colour else line}")
