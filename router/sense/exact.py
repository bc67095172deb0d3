"""Exact token counts for prompts close to a limit, in a separate process. Nothing is ever fetched."""

import asyncio
import hashlib
import importlib.util
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import accumulate, pairwise
from math import inf
from pathlib import Path

from router.contract.request import RequestView
from router.contract.signals import TokenCount
from router.sense.counting_process import PROGRAM, CountingProcess
from router.sense.tokens import TOKENS_PER_IMAGE, estimate_prompt, read_fields, texts_in

_VOCABULARY = "fb374d419588a4632f3f557e76b4b70aebbca790"
_VOCABULARY_SHA256_HEAD = "446a9538cb6c348e"
_MAX_WAITING = 8
_MAX_STARTS = 3
"""Deaths in a row, each before it was ready."""
_WAIT_SECONDS = 5.0
"""Longest wait for a count, and for the vocabulary, which loads in half a second."""
_LATER_SECONDS = 0.5
"""The load waits until a model works on the request."""
_IDLE_SECONDS = 300.0
_TOKENS_PER_MESSAGE = 4
_COUNTED = "tokens"


class ExactCounter:
    """Counts with tiktoken's `o200k_base`, in a process that runs while counts are likely. If it fails, the estimate serves."""

    def __init__(
        self,
        warn: Callable[[str], None],
        *,
        program: Path = PROGRAM,
        wait_seconds: float = _WAIT_SECONDS,
        later_seconds: float = _LATER_SECONDS,
        idle_seconds: float = _IDLE_SECONDS,
    ) -> None:
        self._warn, self._program = warn, program
        self._wait_seconds, self._later_seconds, self._idle_seconds = wait_seconds, later_seconds, idle_seconds
        self._vocabulary: Path | None = None
        self._process: CountingProcess | None = None
        self._is_missing = self._is_closed = self._is_loading = False
        self._failed_starts = 0
        self._waiting = 0
        self._retirement: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokens")

    async def count(
        self, view: RequestView, within_seconds: float = inf, learn: Callable[[int], None] | None = None
    ) -> TokenCount | None:
        """None without a vocabulary, or if the process failed. Raises `TimeoutError`; a late count serves the next request."""
        if self._is_missing or self._is_closed:
            return None
        if self._waiting >= _MAX_WAITING:
            raise TimeoutError
        if within_seconds < self._wait_seconds and not self._is_ready:
            self._load_later(self._count, view, learn)
            raise TimeoutError
        counting = asyncio.get_running_loop().run_in_executor(self._thread, self._count, view, learn)
        self._waiting += 1
        try:
            # Not asyncio.timeout, which needs a task: a request's first steps have none.
            await asyncio.wait((counting,), timeout=min(within_seconds, self._wait_seconds))
            if not counting.done():
                raise TimeoutError
            tokens = counting.result()
        finally:
            counting.cancel()
            self._waiting -= 1
            self._retire_later()
        return None if tokens is None else TokenCount(tokens, tokens, tokens, is_exact=True)

    async def count_or_estimate(self, view: RequestView) -> TokenCount:
        try:
            return await self.count(view) or estimate_prompt(view)
        except TimeoutError:
            return estimate_prompt(view)

    def prepare(self) -> None:
        """Load the vocabulary soon; regular calls keep the process running."""
        if not self._is_missing and not self._is_closed:
            self._load_later(self._load)

    def close(self) -> None:
        self._is_closed = True
        if self._retirement is not None:
            self._retirement.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._stop()

    @property
    def _is_ready(self) -> bool:
        process = self._process
        return process is not None and process.is_ready

    def _load_later(self, work: Callable[..., object], *given: object) -> None:
        if not self._is_ready and not self._is_loading:
            self._is_loading = True
            asyncio.get_running_loop().call_later(self._later_seconds, self._begin_loading, work, *given)
        self._retire_later()

    def _begin_loading(self, work: Callable[..., object], *given: object) -> None:
        if not self._is_closed:
            self._thread.submit(work, *given).add_done_callback(self._end_loading)

    def _end_loading(self, _: Future[object]) -> None:
        self._is_loading = False

    def _retire_later(self) -> None:
        if self._retirement is not None:
            self._retirement.cancel()
        if not self._is_closed:
            loop = asyncio.get_running_loop()
            self._retirement = loop.call_later(self._idle_seconds, self._thread.submit, self._stop)

    # These run in the thread.

    def _load(self) -> None:
        try:
            if (process := self._process or self._start()) is not None:
                process.load(self._wait_seconds)
        except Exception as error:  # noqa: BLE001  whatever it is, the next count starts another process
            self._note_death(error)

    def _count(self, view: RequestView, learn: Callable[[int], None] | None) -> int | None:
        try:
            process = self._process or self._start()
            texts = self._count_texts(process, view) if process is not None else None
        except Exception as error:  # noqa: BLE001  whatever it is, its pipe may hold half a question, and no request ends for it
            self._note_death(error)
            return None
        if texts is None:
            return None
        tokens = texts + len(view.conversation) * _TOKENS_PER_MESSAGE + view.image_count * TOKENS_PER_IMAGE
        if learn is not None:
            learn(tokens)
        return tokens

    def _count_texts(self, process: CountingProcess, view: RequestView) -> int | None:
        """Counts of a conversation's beginning are kept with its history: only new texts are sent."""
        conversation = view.conversation
        items, fields = conversation.items, read_fields(view)
        around = [value for value in fields if value is not items]
        if conversation.known is None or len(around) == len(fields):
            counted = process.count([texts_in(fields)], self._wait_seconds)
            return None if counted is None else counted[0]
        before, beginnings = conversation.known
        known: int | None = before.learned.get(_COUNTED)
        if known is None:
            beginnings = [before, *beginnings]
        cuts = [before.count if known is not None else 0, *(beginning.count for beginning in beginnings), len(items)]
        parts = [texts_in(items[start:end]) for start, end in pairwise(cuts)]
        counted = process.count([texts_in(around), *parts], self._wait_seconds)
        if counted is None:
            return None
        *sums, total = accumulate(counted[1:], initial=known or 0)
        for beginning, tokens in zip(beginnings, sums[1:], strict=True):
            beginning.learned[_COUNTED] = tokens
        return counted[0] + total

    def _start(self) -> CountingProcess | None:
        self._vocabulary = self._vocabulary or find_vocabulary()
        if self._vocabulary is None:
            self._give_up("no tiktoken vocabulary on this machine")
            return None
        try:
            self._process = CountingProcess(self._program, self._vocabulary)
        except OSError as error:
            self._note_failed_start(type(error).__name__)
        if self._is_closed:
            self._stop()  # `close` came during the start and found nothing to stop
        return self._process

    def _note_death(self, error: Exception) -> None:
        was_ready = self._process is not None and self._process.is_ready
        self._stop()
        if was_ready:
            self._failed_starts = 0
        elif not self._is_closed:
            self._note_failed_start("it died" if isinstance(error, OSError) else type(error).__name__)

    def _note_failed_start(self, reason: str) -> None:
        self._failed_starts += 1
        if self._failed_starts >= _MAX_STARTS:
            self._give_up(f"the process that counts cannot be started ({reason})")

    def _give_up(self, reason: str) -> None:
        self._is_missing = True
        self._warn(f"{reason}: token counts near a limit are estimates")

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.stop()


def find_vocabulary() -> Path | None:
    """Checked before tiktoken sees it, which would answer a damaged file by fetching another."""
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
