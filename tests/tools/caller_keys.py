"""Keys of callers, made for a test, and the line by which a config asks for them."""

from pathlib import Path

from router.contract.keys import NewKey, make_key

ASKS_FOR_KEYS = "keys: {file: keys.yaml}\n"


def write_keys(folder: Path, **callers: str) -> dict[str, NewKey]:
    """Write `keys.yaml`: a new key for each caller, who has these rights, as in `ada="may_force: [fast, deep]"`."""
    made = {name: make_key() for name in callers}
    lines = ["callers:"]
    for name, rights in callers.items():
        key = made[name]
        listed = f'keys: [{{id: "{key.id}", sha256: {key.digest.hex()}, created: 2026-11-01T10:00:00Z}}]'
        lines.append(f"  {name}: {{{f'{rights}, ' if rights else ''}{listed}}}")
    path = folder / "keys.yaml"
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o600)
    return made
