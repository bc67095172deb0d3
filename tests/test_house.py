"""The plan of the house: imports run one way, and the road fits a screen."""

import ast
import inspect
from pathlib import Path

from router.house import House

ROOT = Path(__file__).resolve().parents[1]
MIDDLE = ("config", "sessions", "sense", "decide", "dispatch", "upstream", "ledger")
LEVELS = {
    "contract": (),
    "dialects": ("contract",),
    "telemetry": ("contract",),
    **{room: ("contract", "dialects", "telemetry", room) for room in MIDDLE},
    "house": ("contract", "dialects", "telemetry", *MIDDLE),
    "edge": ("contract", "dialects", "telemetry", *MIDDLE, "house"),
    "lab": ("contract", "dialects", "telemetry", *MIDDLE, "house"),
    "registry": ("contract",),
    "wiring": ("contract", "dialects", "telemetry", *MIDDLE, "house", "edge", "lab", "registry"),
    "cli": ("contract", "dialects", "telemetry", *MIDDLE, "house", "edge", "lab", "registry", "wiring"),
}


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
    return found


def room_of(path: Path) -> str:
    return path.relative_to(ROOT / "router").parts[0].removesuffix(".py")


def test_every_import_inside_the_router_runs_one_way():
    breaches = []
    for path in sorted((ROOT / "router").rglob("*.py")):
        room = room_of(path)
        if room == "__init__":
            continue
        allowed = {room, *LEVELS[room]}
        for module in imports_of(path):
            parts = module.split(".")
            if parts[0] == "router" and len(parts) > 1 and parts[1] not in allowed:
                breaches.append(f"{path.relative_to(ROOT)} imports {module}")
            if parts[0] in ("policies", "adapters") and room != "registry":
                breaches.append(f"{path.relative_to(ROOT)} imports {module}")

    assert breaches == []


def test_policies_and_adapters_see_only_contract_and_dialects():
    breaches = []
    for path in sorted([*(ROOT / "policies").glob("*.py"), *(ROOT / "adapters").glob("*.py")]):
        for module in imports_of(path):
            if module.startswith("router.") and module.split(".")[1] not in ("contract", "dialects"):
                breaches.append(f"{path.relative_to(ROOT)} imports {module}")

    assert breaches == []


def test_the_road_fits_a_screen():
    lines = inspect.getsource(House.serve).splitlines()

    assert len(lines) <= 40


def test_the_top_level_holds_nothing_but_the_plan_and_customary_files():
    allowed = {
        *("router", "policies", "adapters", "tests", "docs", "config.yaml", "pyproject.toml", "requirements.lock", "Makefile"),
        *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", ".ci", ".git", ".gitignore"),
    }
    ignored = {".venv", "dist", ".ruff_cache", ".mypy_cache", ".pytest_cache", ".hypothesis", "__pycache__"}
    found = {path.name for path in ROOT.iterdir()} - ignored

    assert {name for name in found if not name.startswith("tandem.db")} <= allowed
