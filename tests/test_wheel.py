"""The wheel, as a stranger would use it: an empty environment, another folder, no checkout in sight."""

import os
import resource
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel):
    folders = ("router", "policies", "adapters")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix != ".pyc"]

    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    templates = {
        f"router/cli/setup/templates/{name}" for name in ("tandem.service", "tandem.socket", "dev.tandem.router.plist")
    }
    moved = {"tandem_command.py", *templates}
    assert names == {str(path.relative_to(ROOT)) for path in files} - {"router/cli/command.py"} | moved
    assert {"router/stores/sqlite/migrations/ledger/0013.sql", "policies/learned.weights"} <= names
    assert not [name for name in names if "test" in Path(name).name]


def test_the_wheel_says_that_its_packages_are_typed(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())

    assert {"router/py.typed", "policies/py.typed", "adapters/py.typed"} <= names


def test_a_key_that_lies_in_a_package_is_not_shipped(tmp_path):
    for name in ("router", "policies", "adapters", "docs/deploy/user", "pyproject.toml", "README.md", "LICENSE"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tmp_path / name)
    for name in ("x.pem", "keys.yaml", "tandem.db", "tandem.db.key", "jobs.db-wal", ".env"):
        (tmp_path / "router" / name).write_text("secret")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path / "dist"), str(tmp_path)]
    subprocess.run([*command, "--wheel", "--sdist"], check=True, capture_output=True)
    shipped = zipfile.ZipFile(next((tmp_path / "dist").glob("*.whl"))).namelist()
    with tarfile.open(next((tmp_path / "dist").glob("*.gz"))) as archive:
        source = [name.partition("/")[2] for name in archive.getnames()]

    for names in (shipped, source):
        assert "router/house.py" in names
        assert {Path(name).name for name in names if name.startswith("router/") and "/" not in name[7:]} == {
            path.name for path in (ROOT / "router").glob("*.*")
        }


def test_nothing_that_only_training_needs_is_shipped_or_asked_for(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [name for name in names if name.endswith("/METADATA")]
        lines = archive.read(metadata).decode().splitlines()

    assert not [name for name in names if name.endswith(".jsonl") or name.startswith("tests")]
    assert not [line for line in lines if "scikit-learn" in line]


def read_needs(requirements: Iterable[str]) -> set[str]:
    """The distributions that these lines ask for, without extras, and all that those ask for."""
    found: set[str] = set()
    waiting = [Requirement(line) for line in requirements]
    while waiting:
        needed = waiting.pop()
        name = canonicalize_name(needed.name)
        if name not in found and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
            found.add(name)
            waiting += map(Requirement, distribution(name).requires or ())
    return found


def lend(names: Iterable[str], folder: Path) -> None:
    """Lay the files of these distributions, and of no others, out in a folder: links to those that are installed here."""
    folder.mkdir()
    for name in names:
        installed = distribution(name)
        for top in {path.parts[0] for path in installed.files or () if path.parts[0] not in ("..", "__pycache__")}:
            (folder / top).symlink_to(installed.locate_file(top))


@pytest.fixture(scope="module")
def alone(wheel, tmp_path_factory) -> Path:
    """The command of an environment that has what the wheel says that it needs, and nothing else."""
    folder = tmp_path_factory.mktemp("alone")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        lines = archive.read(name).decode().splitlines()
    needs = read_needs(line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: "))
    assert {"fastapi", "starlette"} <= needs
    assert not {"litellm", "scikit-learn", "pytest", "openai"} & needs
    lend(needs, folder / "lent")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    (packages,) = (folder / "venv").glob("lib/*/site-packages")
    (packages / "lent.pth").write_text(str(folder / "lent"))
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "venv" / "bin" / "python"), "--disable-pip-version-check"]
    for step in (["install", "--quiet", "--no-compile", "--no-index", str(wheel)], ["check"]):
        done = subprocess.run([*pip, *step], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "venv" / "bin" / "tandem"


def test_the_wheel_installs_alone_and_serves_from_another_folder(alone, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [str(alone), "serve", "--port", "0", "--log", "json"]
    server = subprocess.Popen(command, cwd=elsewhere, env=environment, stderr=subprocess.PIPE, text=True)

    try:
        line = server.stderr.readline()
        url = line.split('"url":"')[1].split('"')[0]
        body = b'{"model": "auto", "messages": [{"role": "user", "content": "fix the typo"}]}'
        request = urllib.request.Request(f"{url}/v1/chat/completions", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.headers["x-tandem-tier"] == "fast"
            assert b"simulated" in answer.read()
    finally:
        server.terminate()
        assert server.wait(20) == 0
        server.stderr.close()
    assert (tmp_path / ".local/state/tandem/tandem.db").stat().st_mode & 0o777 == 0o600
    assert list(elsewhere.iterdir()) == []


def test_the_wheels_other_commands_work_outside_a_checkout_and_name_no_file_that_it_lacks(alone, tmp_path):
    def tandem(*arguments: str, code: int = 0) -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GEMINI_API_KEY": "x", "GROQ_API_KEY": "x"}
        done = subprocess.run([str(alone), *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == code, done.stdout + done.stderr
        assert "docs/" not in done.stdout + done.stderr
        return done.stdout + done.stderr

    assert tandem("explain", "fix the typo").startswith("fast ")
    assert "found Google Gemini: GEMINI_API_KEY" in tandem("init", "--offline")
    assert "docs/" not in (tmp_path / "config.yaml").read_text()
    assert "groq" in tandem("check")
    (tmp_path / "litellm.yaml").write_text(
        (tmp_path / "config.yaml").read_text().replace("adapter: openai_http", "adapter: litellm")
    )
    install = f"hint: uv pip install --python {alone.with_name('python')} 'litellm!=1.82.7,!=1.82.8,>=1.84'"  # it has no pip
    assert install in " ".join(tandem("check", "--config", "litellm.yaml", code=2).split())
    live = tandem("check", "--live", "--verbose", "--no-calls", "--timeout", "1", code=1)
    assert f"{install}, or TIKTOKEN_CACHE_DIR" in " ".join(live.split())
    (tmp_path / "config.yaml").write_text((tmp_path / "config.yaml").read_text() + "hots: 1\n")
    assert "hots: no such setting\n                 hint: did you mean host? known here: server, " in tandem("check", code=2)


def test_a_program_that_uses_the_wheel_gets_the_types_of_the_public_module(alone, tmp_path):
    (tmp_path / "use.py").write_text(
        "from router.api import Decision, TandemApp, Tier, build_app, decide\n"
        'decision: Decision = decide([{"role": "user", "content": "hi"}], tools=[], config={"preference": "speed"})\n'
        "tier: Tier = decision.tier\n"
        'app: TandemApp = build_app("config.yaml")\n'
        'decide("hi")\n'
        "build_app(7)\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(alone.with_name("python")), "use.py"]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    problems = [line.split(" error: ")[0] for line in done.stdout.splitlines() if " error: " in line]
    assert problems == ["use.py:5:", "use.py:6:"], done.stdout + done.stderr


def test_the_command_works_in_a_project_with_folders_of_the_same_names(alone, tmp_path):
    for name in ("router", "adapters", "policies"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": "."}

    done = subprocess.run([str(alone), "check"], cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


def test_a_start_takes_less_than_two_seconds_of_cpu_and_80_mb(tmp_path):
    """How long a person waits for it is for the bench (`tests/bench/costs.py`); here it is what a start has to do."""
    command = [sys.executable, "-m", "router.cli", "serve", "--port", "0", "--log", "json", "--no-ledger"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    server = subprocess.Popen([*command, "--config", str(ROOT / "config.yaml")], stderr=subprocess.PIPE, text=True, cwd=ROOT)

    try:
        url = server.stderr.readline().split('"url":"')[1].split('"')[0]
        with urllib.request.urlopen(f"{url}/v1/models", timeout=60) as answer:
            assert answer.status == 200
        status = Path(f"/proc/{server.pid}/status")
        if status.exists():
            resident_kb = int(status.read_text().split("VmRSS:")[1].split()[0])
            assert resident_kb < 80 * 1024
    finally:
        server.terminate()
        server.wait(20)
        server.stderr.close()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2
