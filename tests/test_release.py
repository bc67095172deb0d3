"""A release as people install it: with pip, pipx and uv, on the oldest and the newest Python here. `make test-release` builds it.

Each way ends with the command that the router itself prints for a missing extra, pasted into a shell.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import tomllib
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_deploy import read_stages
from tests.tools.ports import keepable_port

pytestmark = [pytest.mark.release, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
WHEEL = DIST / f"tandem_router-{VERSION}-py3-none-any.whl"
SDIST = DIST / f"tandem_router-{VERSION}.tar.gz"
ASKED = b'{"model": "auto", "messages": [{"role": "user", "content": "fix the typo"}]}'


def find_pythons() -> list[str]:
    """This Python, and the newest one on the machine if that is another."""
    found = {sys.version_info[:2]: sys.executable}
    named = [shutil.which(f"python3.{minor}") for minor in range(11, 20)]
    for path in [*filter(None, named), *map(str, Path.home().glob(".pyenv/versions/3.*/bin/python3"))]:
        code = "import sys, venv, ensurepip; print(*sys.version_info[:2])"
        done = subprocess.run([path, "-c", code], capture_output=True, text=True)
        if done.returncode == 0:
            found.setdefault(tuple(map(int, done.stdout.split())), path)
    return list(dict.fromkeys([sys.executable, found[max(found)]]))


PYTHONS = find_pythons()
WAYS = [*((f"pip {number}", python, WHEEL) for number, python in enumerate(PYTHONS)), ("pip", sys.executable, SDIST)]
WAYS += [("pipx", PYTHONS[-1], WHEEL), ("uv", PYTHONS[-1], WHEEL)]


@pytest.fixture(scope="module")
def index() -> None:
    """An index to install from."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps", "hiredis"]
    done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"NO RELEASE WAS INSTALLED, pip finds no index: {done.stderr[-200:]}")


def run(*command: str, environment: dict[str, str] | None = None, folder: Path | None = None) -> str:
    done = subprocess.run(command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


@contextlib.contextmanager
def serving(tandem: Path, environment: dict[str, str], folder: Path, *options: str) -> Iterator[str]:
    """The address of a router that is ready. It ends by itself on one signal."""
    port = keepable_port()
    log = (folder / "serve.log").open("w+")
    command = [str(tandem), "serve", "--port", str(port), "--log", "json", *options]
    router = subprocess.Popen(command, env=environment, cwd=folder, stderr=log)
    url, until = f"http://127.0.0.1:{port}", time.monotonic() + 120
    try:
        while not is_ready(url):
            assert router.poll() is None and time.monotonic() < until, Path(log.name).read_text()  # noqa: PT018
            time.sleep(0.1)
        yield url
        router.send_signal(signal.SIGTERM)
        assert router.wait(60) == 0, Path(log.name).read_text()
    finally:
        router.kill()
        router.wait()
        log.close()


def is_ready(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/readyz", timeout=5) as answer:
        return answer.status == 200
    return False


def ask(url: str) -> None:
    request = urllib.request.Request(f"{url}/v1/chat/completions", ASKED, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.headers["x-tandem-tier"] == "fast"
        assert b"simulated" in answer.read()


def install(way: str, python: str, package: Path, home: Path) -> tuple[Path, dict[str, str]]:
    """The command `tandem`, and the environment that it and its installer need."""
    tool, bin_folder = way.split()[0], home / "bin"
    environment = {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "HOME": os.environ["HOME"]}
    environment |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_"))}
    environment |= {"XDG_STATE_HOME": str(home), "XDG_CONFIG_HOME": str(home / "none")}
    environment |= {"PIPX_HOME": str(home / "pipx"), "PIPX_BIN_DIR": str(bin_folder), "PIPX_MAN_DIR": str(home / "man")}
    environment |= {"UV_TOOL_DIR": str(home / "uv"), "UV_TOOL_BIN_DIR": str(bin_folder)}
    if tool != "pip" and shutil.which(tool) is None:
        pytest.skip(f"{tool} is not here: the release was NOT INSTALLED with it")
    if tool == "pipx":
        run("pipx", "install", "--python", python, str(package), environment=environment)
    elif tool == "uv":
        run("uv", "tool", "install", "--python", python, str(package), environment=environment)
    else:
        run(python, "-m", "venv", str(home / "venv"))
        run(str(home / "venv/bin/python"), "-m", "pip", "install", "--quiet", str(package), environment=environment)
        return home / "venv/bin/tandem", environment
    return bin_folder / "tandem", environment


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize(("way", "python", "package"), WAYS, ids=[f"{way}-{package.suffix[1:]}" for way, _, package in WAYS])
def test_a_release_installs_and_answers(way, python, package, tmp_path):
    tandem, environment = install(way, python, package, tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()

    assert run(str(tandem), "--version", environment=environment) == f"tandem {VERSION}\n"
    with serving(tandem, environment, empty) as url:
        ask(url)


def test_a_release_has_its_parts_with_their_checksums():
    parts = {WHEEL.name, SDIST.name, f"tandem_router-{VERSION}.cdx.json", "config.schema.json"}
    sums = dict(line.split()[::-1] for line in (DIST / "SHA256SUMS").read_text().splitlines())

    assert {path.name for path in DIST.iterdir()} == parts | {"SHA256SUMS"}
    assert sums == {name: hashlib.sha256((DIST / name).read_bytes()).hexdigest() for name in parts}
    assert (DIST / "config.schema.json").read_bytes() == (ROOT / "router/config/config.schema.json").read_bytes()


def test_a_release_names_its_extras_and_what_serving_installs():
    with zipfile.ZipFile(WHEEL) as archive:
        metadata = archive.read(f"tandem_router-{VERSION}.dist-info/METADATA").decode()
    listed = json.loads((DIST / f"tandem_router-{VERSION}.cdx.json").read_text())

    assert re.findall(r"^Provides-Extra: (.+)$", metadata, re.MULTILINE) == ["litellm", "shared", "uvloop"]
    assert listed["metadata"]["component"]["version"] == VERSION
    pins = re.findall(r"^([a-z0-9._-]+)==(\S+)", (ROOT / "requirements/serve.txt").read_text(), re.MULTILINE)
    assert {(part["name"], part["version"]) for part in listed["components"]} == set(pins)


def test_the_sdist_has_what_a_wheel_is_built_from_and_nothing_private():
    with tarfile.open(SDIST) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {
        "pyproject.toml",
        "router/house.py",
        "docs/deploy/user/tandem.service",
        "requirements/serve.txt",
        "Makefile",
    } <= names
    assert not [name for name in names if re.search(r"\.(db|pem|pyc|env)$|(^|/)(keys\.yaml|\.env|\.venv|\.cache)(/|$)", name)]


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("extras", ["shared", "litellm"])
def test_the_steps_of_the_image_install_a_router_that_answers(extras, tmp_path):
    """The build stage of the Dockerfile, run here: no container, but the commands and files that would be in one."""
    source, prefix = tmp_path / "src", tmp_path / "opt"
    source.mkdir()
    build, final = read_stages()
    for name, rest in build:
        words = rest.split()
        if name == "COPY":
            for path in words[:-1]:
                goal = source / path if (ROOT / path).is_dir() else source / words[-1] / Path(path).name
                goal.parent.mkdir(parents=True, exist_ok=True)
                shutil.copytree(ROOT / path, goal) if (ROOT / path).is_dir() else shutil.copy(ROOT / path, goal)
        elif name == "RUN":
            run(
                "sh",
                "-c",
                rest.replace("/opt/tandem", str(prefix)),
                environment={**os.environ, "EXTRAS": extras},
                folder=source,
            )
    (settings,) = [rest for name, rest in final if name == "ENV"]
    environment = {**os.environ, **dict(pair.split("=", 1) for pair in settings.split() if not pair.startswith("PATH="))}
    environment["XDG_STATE_HOME"] = str(tmp_path)

    tandem = prefix / "bin/tandem"
    with serving(tandem, environment, tmp_path) as url:
        ask(url)
    needed = {"shared": "hiredis", "litellm": "litellm, hiredis, asyncpg"}[extras]
    run(str(prefix / "bin/python"), "-c", f"import importlib.util as u; assert all(map(u.find_spec, '{needed}'.split(', ')))")


def test_an_image_is_built_where_that_can_be():
    builders = [["buildah", "build"], ["podman", "build"], ["docker", "build"]]
    reasons = []
    for command in builders:
        if shutil.which(command[0]):
            done = subprocess.run([*command, "-t", "tandem-of-a-test", str(ROOT)], capture_output=True, text=True, timeout=500)
            if done.returncode == 0:
                return
            reasons.append(f"{command[0]}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
            assert "requirements" not in done.stderr, done.stderr
    pytest.skip(f"NO IMAGE WAS BUILT: {'; '.join(reasons) or 'there is no buildah, podman or docker'}")
