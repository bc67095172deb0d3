"""The commonest changes, as `where-do-i-change` describes them: each patch fits this tree, and does what it says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RECIPES = ROOT / "tests" / "recipes"
MOST_FILES = {"metric": 2, "setting": 3, "ledger-column": 3, "caller-limit": 4}
"""Source files that a change may touch."""


@pytest.mark.parametrize("name", sorted(path.stem for path in RECIPES.glob("*.patch")))
def test_a_recipe_fits_and_works(name, tmp_path):
    text = (RECIPES / f"{name}.patch").read_text()
    for folder in ("router", "policies", "adapters", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    check = "\n".join(line[2:] for line in text.splitlines() if line.startswith((">", "> ")) and not line.startswith(">>"))

    applied = subprocess.run(["git", "apply", "-C1", "-"], input=text, cwd=tmp_path, capture_output=True, text=True)
    assert applied.returncode == 0, f"{name}.patch does not fit any more: {applied.stderr}"
    path = os.pathsep.join((str(tmp_path), str(RECIPES)))
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\nfrom recipe_router import Router\n{check}"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"^\+\+\+ ", text, re.MULTILINE)) <= MOST_FILES.get(name, 4)
