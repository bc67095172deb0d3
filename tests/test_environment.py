"""What is installed, and what a start costs: no unknown start-up code, no address in a lock, nothing heavy imported."""

import re
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
KNOWN_PTH = {"distutils-precedence.pth", "_editable_impl_tandem_router.pth"}


LOCKS = ("serve", "shared", "litellm", "dev")


def read_lock(name: str) -> tuple[str, dict[str, tuple[str, ...]]]:
    """A lock's text, and its pins with their hashes."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    pins = re.findall(r"^([a-z0-9._-]+==\S+)((?:.*\\\n)+.*)$", text, re.MULTILINE)
    return text, {pin: tuple(re.findall(r"--hash=(sha256:[0-9a-f]{64})", rest)) for pin, rest in pins}


def names_of(requirements: Iterable[str]) -> set[str]:
    return {re.match(r"[A-Za-z0-9._-]+", line).group() for line in requirements}


def test_no_package_runs_code_at_start_that_nobody_knows():
    folder = Path(sysconfig.get_paths()["purelib"])

    assert {path.name for path in folder.glob("*.pth")} <= KNOWN_PTH


@pytest.mark.parametrize("name", [*LOCKS, "engine", "mutants", "release"])
def test_a_lock_names_versions_and_hashes_and_no_address(name):
    text, pins = read_lock(name)

    assert len(pins) > 5
    assert all(pins.values())
    assert "://" not in text
    assert not re.search(r"^(--|-i |-f |-e )", text, re.MULTILINE)


def test_each_lock_holds_the_smaller_one_with_the_same_versions_and_hashes():
    """So an environment can be made larger, and never has to take back what serving was tested with."""
    locks = [read_lock(name)[1] for name in LOCKS]

    for smaller, larger in pairwise(locks):
        assert smaller.items() < larger.items()


def test_the_lock_of_the_image_holds_what_serving_and_shared_stores_need_and_nothing_else():
    serve, shared = (read_lock(name)[1] for name in ("serve", "shared"))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    assert {pin.partition("==")[0] for pin in shared.keys() - serve.keys()} == names_of(extras["shared"])


def test_the_lock_for_serving_holds_what_the_package_needs_and_nothing_to_work_on_it_with():
    pins = {line.partition("==")[0] for line in read_lock("serve")[1]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert names_of(project["dependencies"]) | {"uvloop"} <= pins
    assert not pins & {
        "litellm",
        "openai",
        "anthropic",
        "pytest",
        "mypy",
        "ruff",
        "hypothesis",
        "zensical",
        "scikit-learn",
        "httpx",
    }


def test_the_large_lock_holds_what_every_extra_and_every_tool_needs():
    """`make setup` installs that lock alone, and the tests use every extra."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pins = {line.partition("==")[0] for line in read_lock("dev")[1]}

    needed = {name for entries in settings["project"]["optional-dependencies"].values() for name in names_of(entries)}
    tools = names_of(entry for entry in settings["dependency-groups"]["dev"] if isinstance(entry, str))

    assert "litellm" in needed
    assert needed | tools <= pins


def test_the_project_names_the_libraries_that_are_fixed_for_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = names_of([*project["dependencies"], *project["optional-dependencies"]["litellm"]])

    assert {"litellm", "pydantic", "fastapi", "tiktoken", "structlog"} <= named


@pytest.mark.parametrize("name", ["litellm", "dev"])
def test_the_locked_litellm_is_none_of_the_compromised_ones(name):
    versions = [line.partition("==")[2] for line in read_lock(name)[1] if line.startswith("litellm==")]

    assert versions
    assert not set(versions) & {"1.82.7", "1.82.8"}
    assert all(tuple(map(int, version.split(".")[:2])) >= (1, 84) for version in versions)


def test_serving_imports_neither_litellm_nor_any_sdk():
    code = (
        "import router.cli.serve, sys;"
        "print([m for m in ('litellm', 'openai', 'anthropic', 'httpx', 'tiktoken', 'numpy', 'sklearn', 'aiohttp') if m in sys.modules])"
    )

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout

    assert printed.strip() == "[]"


def test_a_turn_loads_no_web_framework_nor_what_routers_share_and_a_control_call_does():
    """FastAPI with what it brings is a third of a start and 9 MB, and no turn needs it. Stores of several routers are for those."""
    code = """
import asyncio, sys, tempfile
from pathlib import Path
from tests.conftest import SIMULATED
from tests.tools.http import call, chat
from tests.tools.running import running

COSTLY = ("fastapi", "starlette", "anyio", "opentelemetry", "pydantic.v1", "http.client", "urllib.request", "router.past")
COSTLY += ("hiredis", "redis", "asyncpg", "router.stores.valkey", "router.stores.postgres")
COSTLY += ("router.page.others", "backports.zstd", "compression.zstd")
COSTLY += ("router.limits.shared_quota", "router.limits.shared_budgets")

async def main(folder):
    async with running(SIMULATED, Path(folder)) as tandem:
        print((await call(tandem.port, "/v1/chat/completions", chat())).status, [name for name in COSTLY if name in sys.modules])
        print((await call(tandem.port, "/v1/models")).status, "fastapi" in sys.modules)

with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(folder))
"""

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout

    assert printed.splitlines() == ["200 []", "200 True"]


@pytest.mark.parametrize(("metrics", "is_counting", "status"), [("{on: true}", True, 200), ("{on: false}", False, 404)])
def test_what_writes_the_metrics_is_loaded_with_the_first_scrape_while_they_are_on(metrics, is_counting, status):
    code = f"""
import asyncio, sys, tempfile
from pathlib import Path
from tests.conftest import SIMULATED
from tests.tools.http import call, chat
from tests.tools.running import running

def loaded(): return "prometheus_client" in sys.modules

async def main(folder):
    async with running(SIMULATED + "metrics: {metrics}", Path(folder)) as tandem:
        await call(tandem.port, "/v1/chat/completions", chat())
        await call(tandem.port, "/v1/models")
        print("before:", loaded())
        print("after:", (await call(tandem.port, "/metrics")).status, loaded())

with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(folder))
"""

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout

    assert "before: False" in printed
    assert f"after: {status} {is_counting}" in printed


def test_a_command_that_does_not_train_imports_nothing_that_only_training_needs():
    code = (
        "import sys; from router.cli import main;"
        "code = main(['explain', 'fix the typo', '--json']);"
        "import router.cli.replay;"
        "print(code, [m for m in ('numpy', 'scipy', 'sklearn', 'joblib') if m in sys.modules])"
    )

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout

    assert printed.splitlines()[-1] == "0 []"


def test_litellm_is_imported_only_once_the_router_serves_a_target_that_needs_it():
    code = """
import asyncio, sys
from pathlib import Path
from router.config.load import check_config, default_text
from router.wiring.build import build_house, known_names

async def main():
    deep = "deep: {targets: [{name: b, adapter: simulated}]}"
    texts = [default_text(), "tiers: {fast: {targets: [{name: a, adapter: litellm, model: openai/x}]}, " + deep + "}"]
    plain, needy = (build_house(check_config(text, "t", Path("."), known_names()), with_ledger=False) for text in texts)
    plain.warm()
    print("litellm" in sys.modules)
    needy.warm()
    from adapters.litellm_library import load_library
    await load_library()
    print("litellm" in sys.modules)
    await plain.close()
    await needy.close()

asyncio.run(main())
"""

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout

    assert printed.split() == ["False", "True"]
