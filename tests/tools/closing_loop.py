"""The loop that tests get where uvloop is installed: it can always be stopped and closed, and names what was left open.

uvloop warns about each handle that is still open and closes it after the warning. Here warnings are errors, so the handle stayed
open, and `close` waited for it forever, in C: one failed test that left a server open hung the whole run.
"""

import warnings
from typing import Any

import pytest
import uvloop


class ClosingLoop(uvloop.Loop):
    """Closes what a test left open before it complains about it, and stops when a test has used up its time."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if isinstance(error := context.get("exception"), pytest.fail.Exception):
            raise error  # from the signal of pytest-timeout; uvloop would only log it, and the test would wait forever
        super().call_exception_handler(context)

    def close(self) -> None:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            super().close()
        if found:
            left = "; ".join(str(warning.message) for warning in found)
            warnings.warn(f"the test left something open: {left}", ResourceWarning, stacklevel=2)
