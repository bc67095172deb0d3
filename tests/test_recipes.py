"""The commonest changes, as `where-do-i-change` describes them: each patch fits this tree, and does what it says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.quick import starts

ROOT = Path(__file__).resolve().parents[1]
RECIPES = ROOT / "tests" / "recipes"
MOST_FILES = {"metric": 2, "setting": 3, "ledger-column": 3, "caller-limit": 4}
"""Source files that a change may touch."""


@pytest.fixture
@starts
def tree(tmp_path):
    """A copy of the source, in which a router is started."""
    for folder in ("router", "policies", "adapters", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)  # with what is compiled
    return tmp_path


@pytest.mark.parametrize("name", sorted(path.stem for path in RECIPES.glob("*.patch")))
def test_a_recipe_fits_and_works(name, tree):
    text = (RECIPES / f"{name}.patch").read_text()
    check = "\n".join(line[2:] for line in text.splitlines() if line.startswith((">", "> ")) and not line.startswith(">>"))

    applied = subprocess.run(["git", "apply", "-C1", "-"], input=text, cwd=tree, capture_output=True, text=True)
    assert applied.returncode == 0, f"{name}.patch does not fit any more: {applied.stderr}"
    path = os.pathsep.join((str(tree), str(RECIPES)))
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\nfrom recipe_router import Router\n{check}"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"^\+\+\+ ", text, re.MULTILINE)) <= MOST_FILES.get(name, 4)
