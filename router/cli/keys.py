"""`tandem keys`: make, change, list, revoke, rotate and test callers' keys, and forget a caller."""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from router.cli import Ended
from router.cli.asking import Refused, Unreachable, ask_object
from router.cli.common import (
    add_config_argument,
    add_json_argument,
    add_yes_argument,
    command_name,
    find_config_in_use,
    known_names,
    print_json,
    refuse_config,
    say,
)
from router.cli.figures import plural
from router.cli.forget import forget_caller
from router.cli.key_edit import change_key_file
from router.cli.key_list import describe_key, is_expired, now_in_utc, print_keys
from router.cli.key_rights import (
    RIGHTS,
    add_right_arguments,
    describe_expiry,
    describe_rights,
    read_lifetime,
    read_span,
    write_moment,
)
from router.cli.reaching import find_running_or_none
from router.cli.routers import ANYWHERE, url_of
from router.config.faults import ConfigError
from router.config.files import KeyPlace, find_keys
from router.config.key_file import CallerSettings, KeyFile, KeySettings, read_key_file
from router.contract.errors import Unauthorized
from router.contract.keys import NewKey, make_key, split_key
from router.contract.stores import StoreUnusable
from router.stores.sqlite.job_rows import count_unfinished
from router.wiring.stores import JOBS_FILE

EXAMPLES = (
    "keys add ada --daily-usd 5 --expires 90d",
    "keys add build-server --tiers fast --rpm 60",
    "keys set ada --daily-usd 10 --rpm none",
    "keys list",
    "keys rotate ada --grace 24h",
    "keys revoke ada",
    "keys test -",
    "keys forget ada",
)
_GRACE = timedelta(hours=24)
_ASK_SECONDS = 20.0
_ENDED = {
    "waiting_jobs": ("waiting job", "cancelled"),
    "running_jobs": ("running job", "stopped"),
    "sockets": ("socket", "closed"),
    "feeds": ("feed", "closed"),
}
_RIGHTS = {right.setting: right.option for right in RIGHTS}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = "add: a caller with a key; set: its rights; forget: delete what is kept of it"
    parser.add_argument("action", choices=tuple(_ACTIONS), help=actions)
    named = "the caller's name; revoke: or a key or its id; test: the key, or - for standard input"
    parser.add_argument("what", nargs="?", default="", metavar="NAME", help=named)
    add_config_argument(parser)
    add_right_arguments(parser)
    times = parser.add_argument_group("add, set and rotate")
    lifetime = "how long the key works: 12h, 90d, 8w (default: as before; add: ever)"
    times.add_argument("--expires", type=read_lifetime, metavar="TIME", default=argparse.SUPPRESS, help=lifetime)
    grace = "how long the old key still works (default: 24h)"
    times.add_argument("--grace", type=read_span, metavar="TIME", default=argparse.SUPPRESS, help=grace)
    others = parser.add_argument_group("add, list, rotate and forget")
    add_json_argument(others, default=argparse.SUPPRESS)
    add_yes_argument(others, ": delete", default=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Only a new key goes to standard output, once; the rest goes to standard error."""
    action = _ACTIONS[arguments.action]
    _check_usage(arguments, action)
    if action.act is None:
        as_json = getattr(arguments, "json", False)
        return forget_caller(arguments.config, arguments.what, is_sure="yes" in arguments, as_json=as_json)
    try:
        path = find_config_in_use(arguments.config)
        if path is None:
            raise Ended(2, f"keys belong to a config file, and there is none\n  hint: {command_name()} init writes one")
        place = find_keys(path, known_names)
        return action.act(place, arguments)
    except ConfigError as error:
        raise refuse_config(error.source, error.faults) from error


def _check_usage(arguments: argparse.Namespace, action: "_Action") -> None:
    name, given = f"{command_name()} keys {arguments.action}", vars(arguments).keys()
    for option in given & set().union(*(known.options for known in _ACTIONS.values())) - action.options:
        *most, last = [name for name, known in _ACTIONS.items() if option in known.options]
        takes = f"{', '.join(most)} and {last}" if most else last
        written = _RIGHTS.get(option, f"--{option}")
        raise Ended(2, f"{written} is an option of {command_name()} keys {takes}, not of {arguments.action}")
    if bool(arguments.what) != bool(action.needs):
        raise Ended(2, f"{name} needs {action.needs}" if action.needs else f"{name} takes no name")
    if arguments.action == "set" and not given & action.options:
        raise Ended(2, f"{name} needs what to change, as in --daily-usd 5")


def _read_rights(arguments: argparse.Namespace) -> dict[str, Any]:
    return {setting: value for setting, value in vars(arguments).items() if setting in _RIGHTS}


def _add(place: KeyPlace, arguments: argparse.Namespace) -> int:
    name, now, new = arguments.what, now_in_utc(), make_key()
    if split_key(name) is not None:
        raise Ended(2, "this is a key, not the name of a caller")
    key = _settings_of(new, now, getattr(arguments, "expires", None))

    def add(file: KeyFile) -> KeyFile:
        if name in file.callers:
            ways = f"{command_name()} keys rotate {name} makes another key, keys set {name} changes its rights"
            raise Ended(1, f"{name} is in {place.path} already\n  hint: {ways}")
        return _check(file, name, {**_read_rights(arguments), "keys": (key,)})

    caller = change_key_file(place.path, add).callers[name]
    say(f"added {name}")
    _say_rights(caller, key, now)
    _hand_out(place, arguments, new, caller)
    _say_prices(caller)
    return 0


def _set(place: KeyPlace, arguments: argparse.Namespace) -> int:
    name, now, chosen = arguments.what, now_in_utc(), _read_rights(arguments)
    lifetime: timedelta | None = getattr(arguments, "expires", None)

    def change(file: KeyFile) -> KeyFile:
        caller = file.callers.get(name) or _not_found(name, file, place)
        if lifetime is not None:
            end = now + lifetime
            chosen["keys"] = tuple(
                key if is_expired(key, now) else key.model_copy(update={"expires": end}) for key in caller.keys
            )
        return _check(file, name, chosen)

    caller = change_key_file(place.path, change).callers[name]
    say(f"changed {name}")
    for line in describe_rights(caller):
        say(f"  {line}")
    for key in caller.keys:
        say(f"  key {key.id} {describe_expiry(key.expires, now)}")
    _say_when(place, "follows it")
    _say_prices(caller)
    return 0


def _say_prices(caller: CallerSettings) -> None:
    if caller.rights.has_budget:
        say(f"A budget needs a price for every target that may serve it: {command_name()} check reports those without one.")


def _rotate(place: KeyPlace, arguments: argparse.Namespace) -> int:
    """Add a key for a caller and let its old ones expire. Name, rights, budgets and history stay."""
    name, now, new = arguments.what, now_in_utc(), make_key()
    grace: timedelta = getattr(arguments, "grace", _GRACE)
    before: list[KeySettings] = []

    def rotate(file: KeyFile) -> KeyFile:
        caller = file.callers.get(name) or _not_found(name, file, place)
        before.extend(caller.keys)
        lifetime = getattr(arguments, "expires", None) or _lifetime_of(caller)
        ending = [_end_by(key, now + grace) for key in caller.keys if not is_expired(key, now)] if grace else []
        return _check(file, name, {"keys": (*ending, _settings_of(new, now, lifetime))})

    caller = change_key_file(place.path, rotate).callers[name]
    *old, key = caller.keys
    say(f"made another key for {name}: the same caller, with the same rights, budgets and history")
    _say_rights(caller, key, now)
    for ending in old:
        say(f"  key {ending.id} still works until {write_moment(ending.expires or now)}")
    _hand_out(place, arguments, new, caller)
    if gone := [key.id for key in before if key.id not in {kept.id for kept in caller.keys}]:
        _say_ended(place, arguments.config, gone)
    return 0


def _revoke(place: KeyPlace, arguments: argparse.Namespace) -> int:
    """A caller without keys is removed too."""
    key, gone = split_key(arguments.what), list[str]()
    what = key[0] if key is not None else arguments.what

    def revoke(file: KeyFile) -> KeyFile:
        owners = (name for name, caller in file.callers.items() if what in (name, *(key.id for key in caller.keys)))
        name = what if what in file.callers else next(owners, what)
        caller = file.callers.get(name) or _not_found(what, file, place)
        left = tuple(key for key in caller.keys if name != what and key.id != what)
        gone.extend([name, *(key.id for key in caller.keys if key not in left)])
        if left:
            return _check(file, name, {"keys": left})
        return KeyFile(callers={other: settings for other, settings in file.callers.items() if other != name})

    left = change_key_file(place.path, revoke).callers
    name, *ids = gone
    say(f"revoked {plural(len(ids), 'key')} of {name}: {', '.join(ids)}" if ids else f"removed {name}")
    if name not in left:
        say(f"  {name} has no key left, and is no longer in the file. The ledger keeps its rows")
    _say_ended(place, arguments.config, ids)
    return 0


def _say_ended(place: KeyPlace, config: str | None, ids: Sequence[str]) -> None:
    """What a running router has ended because these keys no longer work, or which jobs are on disk."""
    router = find_running_or_none(config) if place.is_asked_for else None
    if router is None:
        _say_when(place, "refuses it")
        if waiting := _count_jobs(place, ids):
            say(f"  {plural(waiting, 'job')} of it will be cancelled when a router starts")
        return
    try:
        told = ask_object(router.url, "/tandem/keys", b"{}", within_seconds=_ASK_SECONDS)
        ended = msgspec.convert(told.get("ended"), dict[str, dict[str, int]])
    except (Refused, Unreachable, msgspec.ValidationError) as error:
        say(f"  the router at {router.url} has not confirmed it: {error}")
        _say_when(place, "refuses it")
        return
    counted = sum((Counter(ended.get(key, {})) for key in ids), Counter[str]())
    words = [f"{plural(counted[kind], noun)} {end}" for kind, (noun, end) in _ENDED.items() if counted[kind]]
    say(f"The router at {router.url} refuses it now: {', '.join(words) or 'no job, socket or feed was open'}.")


def _count_jobs(place: KeyPlace, ids: Sequence[str]) -> int:
    """Jobs in the file next to the ledger that have not ended."""
    path = place.ledger_path.with_name(JOBS_FILE) if place.ledger_path is not None else None
    if path is None or not path.is_file():
        return 0
    try:
        return count_unfinished(path, ids)
    except StoreUnusable:
        return 0


def _list(place: KeyPlace, arguments: argparse.Namespace) -> int:
    file = _read(place)
    as_json = getattr(arguments, "json", False)
    print_keys(place, file, now_in_utc(), as_json=as_json)
    if not file.callers and not as_json:
        say(f"no callers in {place.path} yet\n  hint: {command_name()} keys add NAME")
    elif not place.is_asked_for and not as_json:
        _say_missing_line(place)
    return 0


def _test(place: KeyPlace, arguments: argparse.Namespace) -> int:
    """Exit code 0: a router with this file accepts the key."""
    text = sys.stdin.readline().strip() if arguments.what == "-" else arguments.what
    file, now = _read(place), now_in_utc()
    try:
        found = file.ring.find(text, now.timestamp())
    except Unauthorized:
        say(f"refused: {_why_refused(text, file, now)}")
        return 1
    caller = file.callers[found.caller.name]
    print(f"{found.caller.name} (key {found.id})")
    key = next(key for key in caller.keys if key.id == found.id)
    print("\n".join(f"  {line}" for line in (*describe_rights(caller), describe_expiry(key.expires, now))))
    if not place.is_asked_for:
        _say_missing_line(place)
    return 0


def _why_refused(text: str, file: KeyFile, now: datetime) -> str:
    """For the operator, never for a caller."""
    parts = split_key(text)
    if parts is None:
        return "this is not a key of Tandem: tdm_, 8 hex digits, _, and 43 letters, digits, - or _"
    key = next((key for caller in file.callers.values() for key in caller.keys if key.id == parts[0]), None)
    if key is None:
        return f"no key has the id {parts[0]}. It was revoked, or belongs to another router"
    if is_expired(key, now) and key.expires is not None:
        return f"key {key.id} expired {write_moment(key.expires)}"
    return f"there is a key with the id {key.id}, and this is not it: its last part differs"


def _read(place: KeyPlace) -> KeyFile:
    return read_key_file(place.path) if place.path.exists() else KeyFile()


def _check(file: KeyFile, name: str, changes: Mapping[str, Any]) -> KeyFile:
    """Raises `Ended` for an invalid name or right."""
    settings = vars(file.callers[name]) if name in file.callers else {}
    try:
        return KeyFile(callers={**file.callers, name: CallerSettings(**{**settings, **changes})})
    except ValueError as error:
        problem = str(error).partition("Value error, ")[2].partition(" [type=")[0] or str(error)
        raise Ended(2, problem) from None


def _not_found(what: str, file: KeyFile, place: KeyPlace) -> CallerSettings:
    hint = f"{command_name()} keys list shows them" if file.callers else f"{command_name()} keys add NAME makes the first"
    raise Ended(1, f'no caller and no key is named "{what[:64]}" in {place.path}\n  hint: {hint}')


def _settings_of(new: NewKey, now: datetime, lifetime: timedelta | None) -> KeySettings:
    expires = now + lifetime if lifetime is not None else None
    return KeySettings(id=new.id, sha256=new.digest.hex(), created=now, expires=expires)


def _lifetime_of(caller: CallerSettings) -> timedelta | None:
    newest = max(caller.keys, key=lambda key: key.created, default=None)
    return newest.expires - newest.created if newest is not None and newest.expires is not None else None


def _end_by(key: KeySettings, end: datetime) -> KeySettings:
    return key if key.expires is not None and key.expires <= end else key.model_copy(update={"expires": end})


def _say_rights(caller: CallerSettings, key: KeySettings, now: datetime) -> None:
    for line in (*describe_rights(caller), describe_expiry(key.expires, now)):
        say(f"  {line}")


def _hand_out(place: KeyPlace, arguments: argparse.Namespace, new: NewKey, caller: CallerSettings) -> None:
    name = arguments.what
    say("The key is shown only now:")
    if "json" in arguments:
        print_json(describe_key(name, caller.keys[-1], caller) | {"key": new.text})
    else:
        print(new.text, flush=True)
    say(f"{name} puts it into the environment variable TANDEM_KEY, and connects a client such as codex or claude-code:")
    server = place.config.server
    url = url_of("HOST" if server.host in ANYWHERE else server.host, server.port, is_tls=server.tls is not None)
    say(f"  tandem connect codex --url {url} --key-env TANDEM_KEY")
    _say_when(place, "accepts it")


def _say_when(place: KeyPlace, what: str) -> None:
    if place.is_asked_for:
        say(f"A running router {what} within seconds.")
    else:
        _say_missing_line(place)


def _say_missing_line(place: KeyPlace) -> None:
    """Without this line, callers are not asked for keys."""
    name = place.path.name if place.path.parent == place.folder else place.path
    say(f"{place.config_path} does not ask for keys yet. Add this line to it, and restart the router:")
    say(f"  keys: {{file: {name}}}")


class _Action(NamedTuple):
    act: Callable[[KeyPlace, argparse.Namespace], int] | None
    """None for `forget`, which needs no key file."""
    options: AbstractSet[str] = frozenset()
    needs: str = "the name of a caller"


_ACTIONS: Mapping[str, _Action] = {
    "add": _Action(_add, {*_RIGHTS, "expires", "json"}),
    "set": _Action(_set, {*_RIGHTS, "expires"}),
    "list": _Action(_list, {"json"}, needs=""),
    "rotate": _Action(_rotate, {"grace", "expires", "json"}),
    "revoke": _Action(_revoke, needs="a caller's name or a key's id"),
    "test": _Action(_test, needs="a key, or - to read it from standard input"),
    "forget": _Action(None, {"yes", "json"}, "a caller's name, as stats --by caller shows it"),
}
