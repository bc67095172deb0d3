"""The command, in a project whose folders have our names."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from router.cli.command import leave_out_pythonpath

ROOT = Path(__file__).resolve().parents[3]


def test_what_the_variable_added_is_left_out_and_all_else_stays():
    path = ["/venv/bin", "/home/ann/project", "/home/ann/lib/", "/usr/lib/python3", "/venv/site-packages"]

    assert leave_out_pythonpath(path, ".:/home/ann/lib", "/home/ann/project") == [
        "/venv/bin",
        "/usr/lib/python3",
        "/venv/site-packages",
    ]
    assert leave_out_pythonpath(path, "", "/home/ann/project") == path


def test_a_project_with_a_folder_named_router_is_not_imported(tmp_path):
    for name in ("router", "adapters", "policies"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the project was imported')\n")
    script = (
        f"import sys, importlib.util; sys.path.append({str(ROOT)!r})\n"
        f"spec = importlib.util.spec_from_file_location('tandem_command', {str(ROOT / 'router' / 'cli' / 'command.py')!r})\n"
        "module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)\n"
        "sys.argv = ['tandem', 'check']; sys.path.pop(0); sys.exit(module.main())\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    assert "nothing to fix" in done.stderr


def test_the_installed_command_is_this_module():
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())

    assert told["project"]["scripts"]["tandem"] == "tandem_command:main"
    assert told["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]["router/cli/command.py"] == "tandem_command.py"
