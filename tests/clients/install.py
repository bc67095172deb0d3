"""Install the real clients, and llama.cpp with its models, ahead of the tests that run them: `python -m tests.clients.install`.

`.ci/run` does so while its first steps leave a core idle. Never fails: a test that misses one tries again, and is skipped with
the reason.
"""

import contextlib
from functools import partial

import pytest

from tests.engine.engine import tiny_model
from tests.tools.clients import PACKAGES, PYTHON_PACKAGES, folder_of_command, installed, socket_sdk


def main() -> None:
    packages = [partial(installed, name) for name in PACKAGES] + [partial(folder_of_command, name) for name in PYTHON_PACKAGES]
    for install in (*packages, socket_sdk, tiny_model):
        with contextlib.suppress(Exception, pytest.skip.Exception):
            install()


if __name__ == "__main__":
    main()
