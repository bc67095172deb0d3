"""Files of keys for routers under test."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from router.contract.keys import NewKey, make_key

KEYS = "keys: {file: keys.yaml}\n"
"""The line of a config that asks for keys."""


def write_keys(folder: Path, **callers: str) -> dict[str, NewKey]:
    """One key for each caller, with these settings of its own (`daily_usd: 1`, say). A caller named `expired` has an old key."""
    keys = {name: make_key() for name in callers}
    lines = ["callers:"]
    for name, settings in callers.items():
        expires = f", expires: {_day(-1)}" if name == "expired" else ""
        key = keys[name]
        lines += [f"  {name}:", *(f"    {line}" for line in settings.splitlines()), "    keys:"]
        lines.append(f'      - {{id: "{key.id}", sha256: "{key.digest.hex()}", created: {_day(-2)}{expires}}}')
    path = folder / "keys.yaml"
    path.touch(0o600)
    path.write_text("\n".join(lines) + "\n")
    return keys


def _day(offset: int) -> str:
    return f"{datetime.now(UTC) + timedelta(days=offset):%Y-%m-%dT%H:%M:%SZ}"
