"""The real tokenizer, where its vocabulary is on this machine."""

import os

import pytest

from router.sense import exact


@pytest.fixture(scope="session")
def encoding():
    folder = exact.find_vocabulary()
    if folder is None:
        pytest.skip("no tiktoken vocabulary on this machine: the band was not measured")
    import tiktoken

    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    return tiktoken.get_encoding("o200k_base")
