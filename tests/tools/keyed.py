"""Routers with keys: `keys.yaml`, and the header of each caller."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from router.config.load import check_config
from router.contract.keys import NewKey, make_key
from router.wiring.build import build_plan, known_names
from tests.tools.running import Running

KEYS = "\nkeys: {file: keys.yaml}\n"


class Callers:
    def __init__(self, folder: Path, **rights: dict) -> None:
        self._folder, self._keys = folder, dict[str, NewKey]()
        self.write(**rights)

    def write(self, **rights: dict) -> None:
        """Write the file for these callers. Existing ones keep their key."""
        self._keys |= {name: make_key() for name in rights if name not in self._keys}
        callers = {name: {**own, "keys": [self._describe(self._keys[name])]} for name, own in rights.items()}
        path = self._folder / "keys.yaml"
        path.touch(0o600)
        path.write_text(yaml.safe_dump({"callers": callers}))

    def renew(self, name: str) -> None:
        """Another key for a caller, from the next `write` on."""
        del self._keys[name]

    def id_of(self, name: str) -> str:
        return self._keys[name].id

    def __getitem__(self, name: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self._keys[name].text}"}

    @staticmethod
    def _describe(key: NewKey) -> dict:
        return {"id": key.id, "sha256": key.digest.hex(), "created": "2026-01-01"}


def swap(tandem: Running, config: str) -> None:
    """Serve by this config, with the current key file."""
    loaded = check_config(config, "test", tandem.loaded.folder, known_names())
    tandem.house.swap(build_plan(loaded, tandem.house.state))


def write_keys(folder: Path, **callers: str) -> dict[str, NewKey]:
    """One key per caller with its settings (`daily_usd: 1`, say). A caller named `expired` has an old key."""
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
