"""The tests' uvloop: it can always be stopped and closed, and names what was left open.

uvloop warns about each open handle before it closes it. Warnings are errors here, so the handle stayed open and `close` waited
for ever in C: one test that left a server open hung the whole run.
"""

import warnings
from typing import Any

import pytest
import uvloop


class ClosingLoop(uvloop.Loop):
    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if isinstance(error := context.get("exception"), pytest.fail.Exception):
            raise error  # from pytest-timeout's signal; uvloop would only log it, and the test would hang
        super().call_exception_handler(context)

    def close(self) -> None:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            super().close()
        if found:
            left = "; ".join(str(warning.message) for warning in found)
            warnings.warn(f"the test left something open: {left}", ResourceWarning, stacklevel=2)
