"""Work in a thread of its own that never holds up the end of the process, unlike the threads of `asyncio.to_thread`."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar, TypeVarTuple

_T = TypeVar("_T")
_Given = TypeVarTuple("_Given")


def start_daemon(name: str, work: Callable[[*_Given], _T], *given: *_Given) -> "Future[_T]":
    """Do work in a daemon thread: what it has not finished when the process ends is dropped."""
    future: Future[_T] = Future()
    future.set_running_or_notify_cancel()  # from now on nobody can cancel it, so its result can always be set

    def run() -> None:
        try:
            future.set_result(work(*given))
        except BaseException as error:  # noqa: BLE001  whoever waits for the result gets it
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
