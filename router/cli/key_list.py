"""`tandem keys list`: every key, its caller's rights and spending, and its last use."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from router.cli.common import print_json, say
from router.cli.figures import UNKNOWN, money
from router.cli.key_rights import NONE, describe_limits
from router.cli.tables import write_lines
from router.config.files import KeyPlace
from router.config.key_file import CallerSettings, KeyFile, KeySettings
from router.contract.past import CallerSums
from router.contract.spending import Period, find_zone, span_of
from router.contract.stores import StoreUnusable
from router.contract.words import Tier
from router.stores.sqlite.past import SqliteEntryReader, wait_for_writer

_TITLES = ("id", "name", "tiers", "may force", "admin", "limits", "expires", "today", "month", "last used")


@dataclass(frozen=True, slots=True)
class ListedKey:
    name: str
    key: KeySettings | None
    caller: CallerSettings
    today_usd: float
    month_usd: float
    """By all keys of the caller."""
    last_used: datetime | None
    is_first: bool
    """The caller's own columns are shown once."""


def print_keys(place: KeyPlace, file: KeyFile, now: datetime, *, as_json: bool) -> None:
    listed = list(list_keys(file, read_spent(place, now)))
    if as_json:
        print_json([_as_json(entry, now) for entry in listed])
    elif listed:
        print("\n".join(write_lines(_TITLES, [_row(entry, now) for entry in listed], is_markdown=False, left=_TITLES)))


def list_keys(file: KeyFile, spent: list[CallerSums]) -> Iterator[ListedKey]:
    """Without keys in the ledger, a key's last use is its caller's."""
    names_keys = any(sums.key for sums in spent)
    for name, caller in sorted(file.callers.items()):
        own = [sums for sums in spent if sums.caller == name]
        today, month = (sum(filter(None, column)) for column in ([s.today_usd for s in own], [s.month_usd for s in own]))
        for index, key in enumerate(caller.keys or (None,)):
            used = [sums.last_at for sums in own if not names_keys or key is None or sums.key == key.id]
            last = datetime.fromtimestamp(max(used), UTC) if used else None
            yield ListedKey(name, key, caller, today, month, last, index == 0)


def read_spent(place: KeyPlace, now: datetime) -> list[CallerSums]:
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


def _as_json(entry: ListedKey, now: datetime) -> dict[str, object]:
    return {
        **describe_key(entry.name, entry.key, entry.caller),
        "is_expired": entry.key is not None and is_expired(entry.key, now),
        "spent_today_usd": round(entry.today_usd, 6),
        "spent_this_month_usd": round(entry.month_usd, 6),
        "last_used": entry.last_used,
    }


def describe_key(name: str, key: KeySettings | None, caller: CallerSettings) -> dict[str, object]:
    return {
        "id": key.id if key is not None else None,
        "name": name,
        "created": key.created if key is not None else None,
        "expires": key.expires if key is not None else None,
        "rights": caller.model_dump(mode="json", exclude={"keys"}),
    }


def _row(entry: ListedKey, now: datetime) -> list[str]:
    key, caller = entry.key, entry.caller
    last = f"{entry.last_used.astimezone():%Y-%m-%d %H:%M}" if entry.last_used is not None else UNKNOWN
    own = [key.id if key is not None else "no key", entry.name]
    expires = _write_expiry(key, now)
    if not entry.is_first:
        return [*own, "", "", "", "", expires, "", "", last]
    return [
        *own,
        "+".join(sorted(caller.tiers, key=[*Tier].index)),
        "+".join(sorted(caller.may_force, key=[*Tier].index)) or NONE,
        "yes" if caller.admin else UNKNOWN,
        describe_limits(caller) or UNKNOWN,
        expires,
        money(entry.today_usd),
        money(entry.month_usd),
        last,
    ]


def _write_expiry(key: KeySettings | None, now: datetime) -> str:
    if key is None or key.expires is None:
        return UNKNOWN if key is None else "never"
    return f"{'expired ' if is_expired(key, now) else ''}{key.expires.astimezone(UTC):%Y-%m-%d}"


def is_expired(key: KeySettings, now: datetime) -> bool:
    return key.expires is not None and key.expires <= now


def now_in_utc() -> datetime:
    """In whole seconds, as in the file."""
    return datetime.fromtimestamp(int(time.time()), UTC)
