"""`tandem keys`: make, change, list, revoke, rotate and test callers' keys, and forget a caller."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
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
    number_between,
    print_json,
    refuse_config,
    say,
    whole_number_between,
)
from router.cli.config_file import change_key_file
from router.cli.figures import UNKNOWN, moment, money, plural
from router.cli.forget import forget_caller
from router.cli.reaching import find_running_or_none
from router.cli.routers import ANYWHERE, url_of
from router.cli.tables import write_lines
from router.config.faults import ConfigError
from router.config.files import KeyPlace, find_keys
from router.config.key_file import CallerSettings, KeyFile, KeySettings, read_key_file
from router.contract.errors import Unauthorized
from router.contract.keys import NewKey, make_key, split_key
from router.contract.past import CallerSums
from router.contract.spending import Period, find_zone, read_ago, span_of
from router.contract.stores import StoreUnusable
from router.contract.words import Tier
from router.stores.sqlite.job_rows import count_unfinished
from router.stores.sqlite.past import SqliteEntryReader, wait_for_writer
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
_TITLES = ("id", "name", "tiers", "may force", "admin", "limits", "expires", "today", "month", "last used")
_GRACE = timedelta(hours=24)
_MAX_SPAN = timedelta(days=3_660)
_MOST = 10**9
_NONE = "none"
_ASK_SECONDS = 20.0
_ENDED = {
    "waiting_jobs": ("waiting job", "cancelled"),
    "running_jobs": ("running job", "stopped"),
    "sockets": ("socket", "closed"),
    "feeds": ("feed", "closed"),
}


def _read_tiers(text: str) -> tuple[Tier, ...]:
    """An `argparse` type: tiers with commas, or `none`."""
    names = [name.strip() for name in text.split(",")]
    if names in ([_NONE], [""]):
        return ()
    if not set(names) <= set(map(str, Tier)):
        raise argparse.ArgumentTypeError(f'"{text}" must be fast, deep, "fast,deep" or none')
    return tuple(tier for tier in Tier if tier in names)


def _read_span(text: str) -> timedelta:
    """An `argparse` type: a span such as 90d."""
    seconds = 0 if text.strip() == "0" else read_ago(text)
    if seconds is None or seconds > _MAX_SPAN.total_seconds():
        raise argparse.ArgumentTypeError(f'"{text}" is not a time such as 30m, 24h, 90d or 8w (at most ten years)')
    return timedelta(seconds=seconds)


def _read_lifetime(text: str) -> timedelta:
    """An `argparse` type: a span above zero."""
    if not (span := _read_span(text)):
        raise argparse.ArgumentTypeError("a key that expires at once is of no use: give it a time such as 90d")
    return span


class Right(NamedTuple):
    setting: str
    option: str
    help: str
    read: Callable[[str], object] | None = None
    """None for a switch."""
    metavar: str = ""

    @property
    def is_limit(self) -> bool:
        return self.metavar in ("N", "USD")


def _limit(setting: str, option: str, help: str) -> Right:  # noqa: A002  argparse's name
    is_money = setting.endswith("_usd")
    read = number_between(0.0001, _MOST) if is_money else whole_number_between(1, _MOST)
    return Right(setting, option, help, lambda text: None if text == _NONE else read(text), "USD" if is_money else "N")


RIGHTS = (
    Right("tiers", "--tiers", "tiers that may serve it (default: fast,deep)", _read_tiers, "TIERS"),
    Right("may_force", "--may-force", "tiers it may ask for by name, or none (default: fast)", _read_tiers, "TIERS"),
    Right("admin", "--admin", "all that needs an admin"),
    _limit("requests_per_minute", "--rpm", "requests a minute"),
    _limit("tokens_per_minute", "--tpm", "tokens a minute"),
    _limit("in_flight", "--in-flight", "requests at once"),
    Right("may_delegate", "--delegate", "may have background jobs (default: yes)"),
    Right("may_combine", "--both-tiers", "may have both tiers work on one task (default: yes)"),
    _limit("jobs_in_flight", "--jobs-in-flight", "background jobs at once"),
    _limit("daily_usd", "--daily-usd", "spending a day"),
    _limit("monthly_usd", "--monthly-usd", "spending a month"),
)
_OPTIONS = {right.setting: right.option for right in RIGHTS}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Rights that are not given are absent from the namespace, so that `set` keeps them."""
    actions = "add: a caller with a key; set: its rights; forget: delete what is kept of it"
    parser.add_argument("action", choices=tuple(_ACTIONS), help=actions)
    named = "the caller's name; revoke: or a key or its id; test: the key, or - for standard input"
    parser.add_argument("what", nargs="?", default="", metavar="NAME", help=named)
    add_config_argument(parser)
    rights = parser.add_argument_group("add and set: what the caller may do")
    limits = parser.add_argument_group("add and set: limits (none removes one)")
    for right in RIGHTS:
        group = limits if right.is_limit else rights
        given: dict[str, Any] = {"dest": right.setting, "default": argparse.SUPPRESS, "help": right.help}
        given |= {"type": right.read, "metavar": right.metavar} if right.read else {"action": argparse.BooleanOptionalAction}
        group.add_argument(right.option, **given)
    times = parser.add_argument_group("add, set and rotate")
    lifetime = "how long the key works: 12h, 90d, 8w (default: as before; add: ever)"
    times.add_argument("--expires", type=_read_lifetime, metavar="TIME", default=argparse.SUPPRESS, help=lifetime)
    grace = "how long the old key still works (default: 24h)"
    times.add_argument("--grace", type=_read_span, metavar="TIME", default=argparse.SUPPRESS, help=grace)
    others = parser.add_argument_group("add, list, rotate and forget")
    add_json_argument(others, default=argparse.SUPPRESS)
    add_yes_argument(others, ": delete", default=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Only a new key goes to standard output, once; the rest goes to standard error."""
    action = _ACTIONS[arguments.action]
    _check_usage(arguments, action)
    if action.act is None:
        return forget_caller(arguments.config, arguments.what, is_sure="yes" in arguments, as_json="json" in arguments)
    try:
        path = find_config_in_use(arguments.config)
        if path is None:
            raise Ended(2, f"keys belong to a config file, and there is none\n  hint: {command_name()} init writes one")
        return action.act(find_keys(path, known_names), arguments)
    except ConfigError as error:
        raise refuse_config(error.source, error.faults) from error


def _check_usage(arguments: argparse.Namespace, action: "_Action") -> None:
    name, given = f"{command_name()} keys {arguments.action}", vars(arguments).keys()
    for option in given & set().union(*(known.options for known in _ACTIONS.values())) - action.options:
        *most, last = [name for name, known in _ACTIONS.items() if option in known.options]
        takes = f"{', '.join(most)} and {last}" if most else last
        written = _OPTIONS.get(option, f"--{option}")
        raise Ended(2, f"{written} is an option of {command_name()} keys {takes}, not of {arguments.action}")
    if bool(arguments.what) != bool(action.needs):
        raise Ended(2, f"{name} needs {action.needs}" if action.needs else f"{name} takes no name")
    if arguments.action == "set" and not given & action.options:
        raise Ended(2, f"{name} needs what to change, as in --daily-usd 5")


def _add(place: KeyPlace, arguments: argparse.Namespace) -> int:
    name, now, new = arguments.what, _now_in_utc(), make_key()
    if split_key(name) is not None:
        raise Ended(2, "this is a key, not the name of a caller")

    def add(file: KeyFile) -> KeyFile:
        if name in file.callers:
            ways = f"{command_name()} keys rotate {name} makes another key, keys set {name} changes its rights"
            raise Ended(1, f"{name} is in {place.path} already\n  hint: {ways}")
        key = _settings_of(new, now, getattr(arguments, "expires", None))
        return _with_caller(file, name, {**_read_rights(arguments), "keys": (key,)})

    caller = change_key_file(place.path, add).callers[name]
    _say_caller(f"added {name}", caller, now)
    _hand_out(place, arguments, new, caller)
    _say_prices(caller)
    return 0


def _set(place: KeyPlace, arguments: argparse.Namespace) -> int:
    name, now, chosen = arguments.what, _now_in_utc(), _read_rights(arguments)

    def change(file: KeyFile) -> KeyFile:
        keys = _find(name, file, place).keys
        if "expires" in arguments:
            end = {"expires": now + arguments.expires}
            chosen["keys"] = tuple(key if _is_expired(key, now) else key.model_copy(update=end) for key in keys)
        return _with_caller(file, name, chosen)

    caller = change_key_file(place.path, change).callers[name]
    _say_caller(f"changed {name}", caller, now)
    _say_when(place, "follows it")
    _say_prices(caller)
    return 0


def _rotate(place: KeyPlace, arguments: argparse.Namespace) -> int:
    """Add a key for a caller and let its old ones expire. Name, rights, budgets and history stay."""
    name, now, new = arguments.what, _now_in_utc(), make_key()
    end = now + getattr(arguments, "grace", _GRACE)
    before: list[KeySettings] = []

    def rotate(file: KeyFile) -> KeyFile:
        before[:] = _find(name, file, place).keys
        lifetime = getattr(arguments, "expires", None) or _lifetime_of(before)
        working = [key for key in before if end > now and not _is_expired(key, now)]
        ending = [key.model_copy(update={"expires": min(key.expires or end, end)}) for key in working]
        return _with_caller(file, name, {"keys": (*ending, _settings_of(new, now, lifetime))})

    caller = change_key_file(place.path, rotate).callers[name]
    _say_caller(f"made another key for {name}: the same caller, with the same rights, budgets and history", caller, now)
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
        keys = _find(name, file, place).keys
        left = tuple(key for key in keys if name != what and key.id != what)
        gone.extend([name, *(key.id for key in keys if key not in left)])
        if left:
            return _with_caller(file, name, {"keys": left})
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
    try:
        return count_unfinished(path, ids) if path is not None and path.is_file() else 0
    except StoreUnusable:
        return 0


def _list(place: KeyPlace, arguments: argparse.Namespace) -> int:
    file, now = _read(place), _now_in_utc()
    listed = list(_list_keys(file, _read_spent(place, now), now))
    if "json" in arguments:
        print_json(listed)
        return 0
    if not listed:
        say(f"no callers in {place.path} yet\n  hint: {command_name()} keys add NAME")
        return 0
    first = {entry["name"]: entry for entry in reversed(listed)}
    rows = [_row(entry, file.callers[entry["name"]], is_first=first[entry["name"]] is entry) for entry in listed]
    print("\n".join(write_lines(_TITLES, rows, is_markdown=False, left=_TITLES)))
    if not place.is_asked_for:
        _say_missing_line(place)
    return 0


def _list_keys(file: KeyFile, spent: Sequence[CallerSums], now: datetime) -> Iterator[dict[str, Any]]:
    """Every key with what its caller spent. Without keys in the ledger, a key's last use is its caller's."""
    names_keys = any(sums.key for sums in spent)
    for name, caller in sorted(file.callers.items()):
        own = [sums for sums in spent if sums.caller == name]
        for key in caller.keys or (None,):
            used = [sums.last_at for sums in own if not names_keys or key is None or sums.key == key.id]
            yield _describe_key(name, key, caller) | {
                "is_expired": key is not None and _is_expired(key, now),
                "spent_today_usd": round(sum(sums.today_usd or 0 for sums in own), 6),
                "spent_this_month_usd": round(sum(sums.month_usd or 0 for sums in own), 6),
                "last_used": datetime.fromtimestamp(max(used), UTC) if used else None,
            }


def _read_spent(place: KeyPlace, now: datetime) -> list[CallerSums]:
    path = place.ledger_path
    if path is None or not path.exists():
        return []
    zone = find_zone(place.config.budgets.time_zone)
    day, month = (span_of(period, now.timestamp(), zone) for period in (Period.DAY, Period.MONTH))
    try:
        wait_for_writer(path)
        return SqliteEntryReader(path).read_spent(day, month)
    except StoreUnusable as error:
        say(f"warning: {error}; what was spent is not known")
        return []


def _describe_key(name: str, key: KeySettings | None, caller: CallerSettings) -> dict[str, Any]:
    own = {setting: getattr(key, setting, None) for setting in ("id", "created", "expires")}
    return {"id": own.pop("id"), "name": name, **own, "rights": caller.model_dump(mode="json", exclude={"keys"})}


def _row(entry: Mapping[str, Any], caller: CallerSettings, *, is_first: bool) -> list[str]:
    """The caller's own columns are shown once."""
    expires = f"{entry['expires'].astimezone(UTC):%Y-%m-%d}" if entry["expires"] else "never" if entry["id"] else UNKNOWN
    row = [
        entry["id"] or "no key",
        entry["name"],
        "+".join(tier for tier in Tier if tier in caller.tiers),
        "+".join(tier for tier in Tier if tier in caller.may_force) or _NONE,
        "yes" if caller.admin else UNKNOWN,
        _describe_limits(caller) or UNKNOWN,
        f"expired {expires}" if entry["is_expired"] else expires,
        money(entry["spent_today_usd"]),
        money(entry["spent_this_month_usd"]),
        f"{entry['last_used'].astimezone():%Y-%m-%d %H:%M}" if entry["last_used"] else UNKNOWN,
    ]
    return row if is_first else [*row[:2], "", "", "", "", row[6], "", "", row[9]]


def _test(place: KeyPlace, arguments: argparse.Namespace) -> int:
    """Exit code 0: a router with this file accepts the key."""
    text = sys.stdin.readline().strip() if arguments.what == "-" else arguments.what
    file, now = _read(place), _now_in_utc()
    try:
        found = file.ring.find(text, now.timestamp())
    except Unauthorized:
        say(f"refused: {_why_refused(text, file, now)}")
        return 1
    caller = file.callers[found.caller.name]
    key = next(key for key in caller.keys if key.id == found.id)
    lines = [f"{found.caller.name} (key {found.id})", *_describe_rights(caller), _describe_expiry(key, now)]
    print("\n  ".join(lines))
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
    if _is_expired(key, now):
        return f"key {key.id} {_describe_expiry(key, now)}"
    return f"there is a key with the id {key.id}, and this is not it: its last part differs"


def _read(place: KeyPlace) -> KeyFile:
    return read_key_file(place.path) if place.path.exists() else KeyFile()


def _read_rights(arguments: argparse.Namespace) -> dict[str, Any]:
    return {setting: value for setting, value in vars(arguments).items() if setting in _OPTIONS}


def _find(what: str, file: KeyFile, place: KeyPlace) -> CallerSettings:
    """Raises `Ended`."""
    if what in file.callers:
        return file.callers[what]
    hint = f"{command_name()} keys list shows them" if file.callers else f"{command_name()} keys add NAME makes the first"
    raise Ended(1, f'no caller and no key is named "{what[:64]}" in {place.path}\n  hint: {hint}')


def _with_caller(file: KeyFile, name: str, changes: Mapping[str, Any]) -> KeyFile:
    """Raises `Ended` for an invalid name or right."""
    settings = vars(file.callers[name]) if name in file.callers else {}
    try:
        return KeyFile(callers={**file.callers, name: CallerSettings(**{**settings, **changes})})
    except ValueError as error:
        problem = str(error).partition("Value error, ")[2].partition(" [type=")[0] or str(error)
        raise Ended(2, problem) from None


def _settings_of(new: NewKey, now: datetime, lifetime: timedelta | None) -> KeySettings:
    expires = now + lifetime if lifetime is not None else None
    return KeySettings(id=new.id, sha256=new.digest.hex(), created=now, expires=expires)


def _lifetime_of(keys: Iterable[KeySettings]) -> timedelta | None:
    newest = max(keys, key=lambda key: key.created, default=None)
    return newest.expires - newest.created if newest is not None and newest.expires is not None else None


def _is_expired(key: KeySettings, now: datetime) -> bool:
    return key.expires is not None and key.expires <= now


def _now_in_utc() -> datetime:
    """In whole seconds, as in the file."""
    return datetime.fromtimestamp(int(time.time()), UTC)


def _say_caller(done: str, caller: CallerSettings, now: datetime) -> None:
    """What was done, and what the caller may do by which keys."""
    keys = [f"key {key.id} {_describe_expiry(key, now)}" for key in caller.keys]
    say("\n  ".join([done, *_describe_rights(caller), *keys]))


def _describe_rights(caller: CallerSettings) -> list[str]:
    lines = [f"served by {_name_tiers(caller.tiers)}{'' if len(caller.tiers) > 1 else ' only'}"]
    asked = _name_tiers(caller.may_force)
    lines.append(f"may ask for {asked} by name" if asked else "may not ask for a tier by name: Tandem chooses")
    if asked and len(caller.may_force) < len(Tier):
        lines[-1] += f", not for {_name_tiers(set(Tier) - set(caller.may_force))}"
    if not caller.may_delegate:
        lines.append("may not have requests served in the background")
    if not caller.may_combine:
        lines.append("may not have both tiers work on one task")
    limits = _describe_limits(caller)
    lines.append(f"limits: {limits}" if limits else "no limits")
    if caller.admin:
        lines.append("admin: may see the figures of all callers, and reload the config")
    return lines


def _describe_limits(caller: CallerSettings) -> str:
    limits = [(right, getattr(caller, right.setting)) for right in RIGHTS if right.is_limit]
    return ", ".join(
        f"{money(number) if right.metavar == 'USD' else f'{number:,}'} {right.help.removeprefix('spending ')}"
        for right, number in limits
        if number is not None
    )


def _name_tiers(tiers: Iterable[Tier]) -> str:
    return " and ".join(tier for tier in Tier if tier in set(tiers))


def _describe_expiry(key: KeySettings, now: datetime) -> str:
    if key.expires is None:
        return "never expires"
    return f"{'expired' if _is_expired(key, now) else 'expires'} {moment(key.expires)}"


def _say_prices(caller: CallerSettings) -> None:
    if caller.rights.has_budget:
        say(f"A budget needs a price for every target that may serve it: {command_name()} check reports those without one.")


def _hand_out(place: KeyPlace, arguments: argparse.Namespace, new: NewKey, caller: CallerSettings) -> None:
    name = arguments.what
    say("The key is shown only now:")
    if "json" in arguments:
        print_json(_describe_key(name, caller.keys[-1], caller) | {"key": new.text})
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
    "add": _Action(_add, {*_OPTIONS, "expires", "json"}),
    "set": _Action(_set, {*_OPTIONS, "expires"}),
    "list": _Action(_list, {"json"}, needs=""),
    "rotate": _Action(_rotate, {"grace", "expires", "json"}),
    "revoke": _Action(_revoke, needs="a caller's name or a key's id"),
    "test": _Action(_test, needs="a key, or - to read it from standard input"),
    "forget": _Action(None, {"yes", "json"}, "a caller's name, as stats --by caller shows it"),
}
