"""Which tests are near a change: run by `make test-near`, which passes them to pytest.

Lists the tests of each room that a change touches, the contract suites and walks that import the room or share a word of the changed
file's path, and tests/test_house.py. Compares with the branch point from main; on main itself, with the last commit.
"""

import argparse
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
ALWAYS = "tests/test_house.py"
WIDE = ("tests/contract", "tests/walk")
_APART = {"clients", "engine", "browser", "bench", "soak", "lab"}
_imports = re.compile(r"^\s*(?:from ([\w.]+) import (\([^)]*\)|.*)|import ([\w.]+))", re.MULTILINE).findall
_MANY = 10
"""A helper with more importers says nothing about what they test."""
_OTHERS = {
    "Makefile": "tests/test_setup.py",
    "pyproject.toml": "tests/test_environment.py",
    "requirements": "tests/test_environment.py",
    "docs": "tests/test_docs.py",
    "README.md": "tests/test_docs.py",
    "CONTRIBUTING.md": "tests/test_docs.py",
    "config.yaml": "tests/test_docs.py",
}


def list_changed(checkout: Path) -> list[str]:
    """Including files never added."""

    def git(*command: str) -> list[str]:
        return subprocess.run(["git", *command], cwd=checkout, capture_output=True, text=True, check=False).stdout.split()

    base = git("merge-base", "HEAD", "main") or git("merge-base", "HEAD", "origin/main") or ["HEAD"]
    return [*git("diff", "--name-only", base[0]), *git("ls-files", "--others", "--exclude-standard")]


def imports_of(path: Path) -> set[str]:
    """Including imports inside functions, and imported names."""
    found: set[str] = set()
    for module, names, plain in _imports(path.read_text()):
        found.add(module or plain)
        found.update(f"{module}.{name}" for name in re.findall(r"\w+", names))
    return found


def words_of(path: str) -> set[str]:
    return {
        word.removesuffix("s") for part in Path(path).with_suffix("").parts for word in part.removeprefix("test_").split("_")
    }


class Suite:
    def __init__(self, checkout: Path) -> None:
        self._checkout = checkout
        files = [path for path in (checkout / "tests").rglob("test_*.py") if not _APART & set(path.parts)]
        self.imports = {str(path.relative_to(checkout)): imports_of(path) for path in files}
        tools = (checkout / "tests/tools").glob("*.py")
        self._tools = {f"tests.tools.{path.stem}": imports_of(path) for path in tools}

    def importing(self, module: str, under: tuple[str, ...] = ("tests",)) -> Iterator[str]:
        """Test files that import a module or its room, directly or by a rare helper."""
        helpers = {name for name, imports in self._tools.items() if _reaches(imports, module) and self._is_rare(name)}
        for path, imports in self.imports.items():
            if path.startswith(under) and (_reaches(imports, module) or imports & helpers):
                yield path

    def _is_rare(self, helper: str) -> bool:
        return sum(helper in imports for imports in self.imports.values()) <= _MANY

    def near(self, changed: Iterable[str]) -> list[str]:
        found = {ALWAYS}
        for path in changed:
            found.update(near for near in self._near(path) if (self._checkout / near).exists())
        return sorted(path for path in found if not any(str(parent) in found for parent in Path(path).parents))

    def _near(self, path: str) -> Iterator[str]:
        parts = Path(path).parts
        if path in self.imports:
            yield path
        elif parts[0] == "tests" and path.endswith(".py"):
            yield from self.importing(".".join(Path(path).with_suffix("").parts))
        elif parts[0] in ("router", "policies", "adapters"):
            yield from self._near_source(path, parts)
        elif parts[0] in _OTHERS:
            yield _OTHERS[parts[0]]

    def _near_source(self, path: str, parts: tuple[str, ...]) -> Iterator[str]:
        if len(parts) > 2:
            yield f"tests/{parts[0]}/{parts[1]}"
        else:
            yield f"tests/contract/test_{parts[0]}.py"
        stem = Path(path).stem
        yield from (test for test in self.imports if test.startswith(f"tests/{parts[0]}/test_{stem}"))
        yield from self.importing(".".join(parts[:2]).removesuffix(".py"), WIDE)
        words = words_of("/".join(parts[1:]))
        yield from (test for test in self.imports if test.startswith("tests/walk/") and words_of(Path(test).name) & words)


def _reaches(imports: set[str], module: str) -> bool:
    return any(name == module or name.startswith(f"{module}.") for name in imports)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="changed files (default: as git tells)")
    given = parser.parse_args()
    print(*Suite(CHECKOUT).near(given.files or list_changed(CHECKOUT)))


if __name__ == "__main__":
    main()
