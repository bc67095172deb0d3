"""Loading litellm: once, off the loop, quietly, and without keys in its sight. A stand-in is imported in its place."""

import asyncio
import functools
import importlib.machinery
import logging
import os
import sys
import threading
import types

import pytest

from adapters import litellm_library
from adapters.litellm_library import load_library, show_variables, withhold_credentials
from router.contract.secret import Secret

LOGS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")


class Library(types.ModuleType):
    """What is imported in litellm's place: it remembers who imported it and what could be seen then."""

    def __init__(self) -> None:
        super().__init__("litellm")
        self.calls: list[dict] = []
        self.imported_by: list[str] = []
        self.saw: dict[str, str] = {}
        self.may_load = threading.Event()
        self.may_load.set()

    async def acompletion(self, **given):
        self.calls.append(given)

        async def answer():
            yield "x"

        return answer()


class Finder:
    """Finds the stand-in under litellm's name."""

    def __init__(self, library: Library) -> None:
        self.library = library

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == "litellm" else None

    def create_module(self, spec):
        return self.library

    def exec_module(self, module) -> None:
        assert module.may_load.wait(10)
        module.imported_by.append(threading.current_thread().name)
        module.saw = dict(os.environ)


@pytest.fixture(autouse=True)
def _same_process():
    """What loading changes of the process is put back."""
    logs = [logging.getLogger(name) for name in LOGS]
    environment, were = dict(os.environ), [log.disabled for log in logs]
    yield
    os.environ.clear()
    os.environ.update(environment)
    for log, was in zip(logs, were, strict=True):
        log.disabled = was


@pytest.fixture
def library(monkeypatch):
    """A litellm that nobody has loaded yet."""
    library = Library()
    monkeypatch.setattr(sys, "meta_path", [Finder(library), *sys.meta_path])
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.delitem(sys.modules, "litellm", raising=False)
    monkeypatch.setattr(litellm_library, "begin_loading", functools.cache(litellm_library.begin_loading.__wrapped__))
    yield library
    sys.modules.pop("litellm", None)


async def test_it_is_imported_once_and_in_a_thread_of_its_own(library):
    found = await asyncio.gather(*(load_library() for _ in range(5)))

    assert found == [library] * 5
    assert library.imported_by == ["litellm"]


async def test_who_waits_no_longer_does_not_stop_the_others(library):
    library.may_load.clear()
    first = asyncio.get_running_loop().create_task(load_library())
    second = asyncio.get_running_loop().create_task(load_library())
    await asyncio.sleep(0)

    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    library.may_load.set()

    assert await second is library


async def test_everybody_hears_that_it_is_not_installed(library, monkeypatch):
    monkeypatch.setitem(sys.modules, "litellm", None)

    for _ in range(2):
        with pytest.raises(ImportError):
            await load_library()


async def test_it_is_quiet_fetches_nothing_and_judges_no_stream(library):
    await load_library()

    assert library.suppress_debug_info
    assert library.turn_off_message_logging
    assert library.disable_token_counter
    assert library.user_url_validation
    assert sys.maxsize == library.REPEATED_STREAMING_CHUNK_LIMIT
    assert library.saw["LITELLM_MODE"] == "PRODUCTION"
    assert library.saw["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"
    assert all(logging.getLogger(name).disabled for name in LOGS)


async def test_it_is_rehearsed_once_without_a_network_or_a_key(library):
    await load_library()

    (call,) = library.calls
    assert (call["mock_response"], call["api_key"], call["stream"], call["max_retries"]) == ("x", "x", True, 0)


async def test_it_never_sees_the_keys_of_the_environment_when_it_is_imported(library, monkeypatch):
    monkeypatch.setenv("CANARY_API_KEY", "canary")

    await load_library()

    assert "canary" not in library.saw.values()
    assert Secret("env:CANARY_API_KEY").reveal() == "canary"


@pytest.mark.parametrize(
    "name",
    [
        "CANARY_API_KEY", "canary_api_key", "CANARY_AUTH_TOKEN", "CANARY_API_BASE", "CANARY_BASE_URL", "CANARY_ENDPOINT",
        "CANARY_ORGANIZATION", "CANARY_ORG_ID", "CANARY_CLOUD_PROJECT", "AWS_CANARY", "VERTEXAI_CANARY", "CANARY_SECRET",
        "CANARY_PASSWORD",
    ],
)  # fmt: skip
def test_what_looks_like_a_key_or_leads_one_elsewhere_is_withheld(monkeypatch, name):
    monkeypatch.setenv(name, "canary")

    withhold_credentials()

    assert name not in os.environ
    assert Secret(f"env:{name}").reveal() == "canary"


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "LITELLM_LOCAL_MODEL_COST_MAP", "TANDEM_KEY", "PYTHONPATH", "SSL_CERT_FILE", "https_proxy", "HTTPS_PROXY"],
)
def test_what_libraries_need_stays(monkeypatch, name):
    monkeypatch.setenv(name, "value")

    withhold_credentials()

    assert os.environ[name] == "value"


def test_variables_that_a_target_asks_for_are_shown_again_and_stay(monkeypatch):
    for name in ("AWS_SHOWNCANARY_ID", "AWS_SHOWNCANARY_KEY", "AWS_OTHER_KEY"):
        monkeypatch.setenv(name, "canary")
    withhold_credentials()

    show_variables(["AWS_SHOWNCANARY_*"])
    withhold_credentials()

    assert {name for name, value in os.environ.items() if value == "canary"} == {"AWS_SHOWNCANARY_ID", "AWS_SHOWNCANARY_KEY"}
    assert Secret("env:AWS_OTHER_KEY").reveal() == "canary"


def test_a_variable_that_was_set_anew_is_not_overwritten_when_it_is_shown(monkeypatch):
    monkeypatch.setenv("AWS_TWICECANARY", "older")
    withhold_credentials()
    monkeypatch.setenv("AWS_TWICECANARY", "newer")

    show_variables(["AWS_TWICECANARY"])

    assert os.environ["AWS_TWICECANARY"] == "newer"
