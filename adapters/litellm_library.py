"""litellm, imported once in a thread, silenced, and shown no key but that of the current call.

The import takes seconds of CPU and over 100 MB, so it happens only when a target needs it, and never on the loop.
"""

import asyncio
import concurrent.futures
import contextlib
import functools
import gc
import importlib
import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from router.contract.secret import release_variables, withhold_variables

_SWITCHES = {
    "LITELLM_MODE": "PRODUCTION",  # the default, DEV, loads a .env file
    "LITELLM_LOG": "ERROR",
    **{
        f"LITELLM_LOCAL_{name}": "True"
        for name in ("MODEL_COST_MAP", "ANTHROPIC_BETA_HEADERS", "BLOG_POSTS", "AUTOROUTER_PRESETS", "POLICY_TEMPLATES")
    },
}
"""Read at import. Without the LOCAL ones litellm fetches files from the network."""
_LAZY = ("litellm._service_logger", "openai.resources.chat", "openai.lib.streaming.chat")
"""Modules that the first call would import on the loop, in half a second. Other versions may name them differently."""
_CREDENTIALS = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|(API|API_URL|BASE|BASE_URL|ENDPOINT)$|ORGANIZATION|_ORG_ID$|_PROJECT"
    r"|^(AWS|AZURE|GOOGLE|VERTEXAI|VERTEX|GEMINI|WATSONX|DATABRICKS|SNOWFLAKE|LANGFUSE|OIDC)_"
)
"""Variables from which litellm and its SDKs take keys, or addresses to send keys to."""
_OURS = re.compile(r"^(LITELLM_LOCAL_|TANDEM_|PYTEST_|PYTHON|TIKTOKEN_|XDG_|SSL_|https?_proxy$|no_proxy$)", re.IGNORECASE)

_shown: set[str] = set()
"""Names and prefixes (`AWS_*`) from targets' `options.environment`."""


@functools.cache
def begin_loading() -> concurrent.futures.Future[Any]:
    loading: concurrent.futures.Future[Any] = concurrent.futures.Future()
    threading.Thread(target=_load, args=(loading,), name="litellm", daemon=True).start()
    return loading


async def load_library() -> Any:
    """Cancelling one waiter does not affect the others."""
    return await asyncio.shield(asyncio.wrap_future(begin_loading()))


def withhold_credentials() -> None:
    """Hide likely keys from all libraries in this process. Our own secrets are still found."""
    withhold_variables(
        lambda name: _CREDENTIALS.search(name.upper()) is not None and _OURS.match(name) is None and not _is_shown(name)
    )


def show_variables(names: Iterable[str]) -> None:
    """Let litellm and its SDKs see these variables in every call: there is only one environment."""
    _shown.update(names)
    release_variables(_is_shown)


def _is_shown(name: str) -> bool:
    return any(fnmatchcase(name, shown) for shown in _shown)


def _load(loading: concurrent.futures.Future[Any]) -> None:
    try:
        loading.set_result(_import())
    except BaseException as error:  # noqa: BLE001  waiters must get every error
        loading.set_exception(error)


def _import() -> Any:
    withhold_credentials()
    os.environ.update(_SWITCHES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        litellm: Any = importlib.import_module("litellm")
        litellm.suppress_debug_info = True
        litellm.turn_off_message_logging = True
        litellm.disable_token_counter = True
        litellm.REPEATED_STREAMING_CHUNK_LIMIT = sys.maxsize  # litellm aborts streams that repeat themselves
        litellm.user_url_validation = True  # litellm fetches image addresses for some providers: never from our own network
        for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
            logging.getLogger(name).disabled = True  # its errors may hold a person's words
        for name in _LAZY:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        asyncio.run(_rehearse(litellm))
    gc.freeze()  # spares the collector, which stops the loop, from walking it
    return litellm


async def _rehearse(litellm: Any) -> None:
    """Answer once without a network: the first call loads half of litellm, which would stop the loop."""
    question = [{"role": "user", "content": "x"}]
    stream = await litellm.acompletion(
        model="openai/rehearsal", messages=question, api_key="x", mock_response="x", stream=True, max_retries=0
    )
    async for _ in stream:
        pass
