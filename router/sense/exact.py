"""The exact count, for prompts whose estimate lies too close to a limit. Off the event loop; nothing is ever fetched."""

import asyncio
import hashlib
import importlib.util
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from router.contract.request import RequestView
from router.contract.signals import TokenCount
from router.sense.texts import texts_of
from router.sense.tokens import TOKENS_PER_IMAGE, estimate_prompt

if TYPE_CHECKING:
    from tiktoken import Encoding

_VOCABULARY = "fb374d419588a4632f3f557e76b4b70aebbca790"
_VOCABULARY_SHA256_HEAD = "446a9538cb6c348e"
_MAX_WAITING = 8
_TOKENS_PER_MESSAGE = 4


class ExactCounter:
    """Counts with tiktoken's `o200k_base`. Its vocabulary (80 MB in memory) is loaded on the first need."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._encoding: Encoding | None = None
        self._is_missing = False
        self._waiting = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokens")

    async def count(self, view: RequestView) -> TokenCount | None:
        """The exact count, or None when it cannot be had: no vocabulary, or too many are waiting for one already."""
        if self._is_missing or self._waiting >= _MAX_WAITING:
            return None
        self._waiting += 1
        try:
            tokens = await asyncio.get_running_loop().run_in_executor(self._thread, self._count, view)
        finally:
            self._waiting -= 1
        return None if tokens is None else TokenCount(tokens, tokens, tokens, is_exact=True)

    async def count_or_estimate(self, view: RequestView) -> TokenCount:
        """The exact count, or else the estimate."""
        return await self.count(view) or estimate_prompt(view)

    def _count(self, view: RequestView) -> int | None:
        encoding = self._load()
        if encoding is None:
            return None
        texts = 0
        for text in texts_of(view):
            # encode_ordinary takes <|endoftext|> and its like for plain text; encode would raise on them.
            texts += len(encoding.encode_ordinary(text))
        return texts + len(view.conversation) * _TOKENS_PER_MESSAGE + view.image_count * TOKENS_PER_IMAGE

    def _load(self) -> "Encoding | None":
        if self._encoding is None and not self._is_missing:
            folder = find_vocabulary()
            if folder is None:
                self._is_missing = True
                self._warn("no tiktoken vocabulary on this machine: token counts near a limit are estimates")
                return None
            os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
            import tiktoken  # costs 30 ms and is wanted by few requests

            self._encoding = tiktoken.get_encoding("o200k_base")
        return self._encoding

    def close(self) -> None:
        """Let the thread go."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def find_vocabulary() -> Path | None:
    """The folder with a vocabulary file that is whole: the user's own, or the one that ships inside litellm.

    The file is checked before tiktoken sees it, since tiktoken answers a damaged file by fetching another.
    """
    folders = [Path(folder) for folder in (os.environ.get("TIKTOKEN_CACHE_DIR"),) if folder]
    litellm = importlib.util.find_spec("litellm")
    if litellm is not None and litellm.submodule_search_locations:
        folders.append(Path(litellm.submodule_search_locations[0]) / "litellm_core_utils" / "tokenizers")
    for folder in folders:
        try:
            digest = hashlib.sha256((folder / _VOCABULARY).read_bytes()).hexdigest()
        except OSError:
            continue
        if digest.startswith(_VOCABULARY_SHA256_HEAD):
            return folder
    return None
