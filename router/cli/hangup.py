"""SIGHUP: stop if the terminal was closed, else reload the config, as for `systemctl reload`."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable

from router.config.faults import ConfigError
from router.loop.tasks import spawn
from router.wiring.reloader import Reloader

_LOOK_SECONDS = 2.0
_TERMINAL = "/dev/tty"


def has_terminal() -> bool:
    try:
        os.close(os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


class Hangup:
    """Made at the start: a terminal that is gone looks as if there never was one."""

    def __init__(self, reloader: Reloader | None, stop: Callable[[], None], look: Callable[[], bool] = has_terminal) -> None:
        self._reloader, self._stop, self._look = reloader, stop, look
        self._had_terminal = look()

    def hear(self) -> None:
        """Stop if the terminal is closed or closes now (shells signal a moment before), else reload."""
        if self._is_closed() or self._reloader is None:
            self._stop()
            return
        spawn(self._reload(self._reloader), name="reload on SIGHUP")
        if self._had_terminal:
            asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look_again)

    def _is_closed(self) -> bool:
        return self._had_terminal and not self._look()

    def _look_again(self) -> None:
        if self._is_closed():
            self._stop()

    async def _reload(self, reloader: Reloader) -> None:
        try:
            await reloader.reload()
        except ConfigError:
            return  # logged already


def stop_with_terminal(stop: Callable[[], None]) -> None:
    """Stop when the terminal closes without a signal.

    SIGHUP goes to the terminal's first process. If that is `make`, it waits for us, and we serve on. `nohup` intends that.
    """
    loop = asyncio.get_running_loop()

    def look() -> None:
        if sys.stderr.isatty():
            loop.call_later(_LOOK_SECONDS, look)
        else:
            stop()

    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.call_later(_LOOK_SECONDS, look)
