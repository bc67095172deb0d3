"""The loop that tests get where uvloop is installed: one that can always be closed, and then names what was left open.

uvloop warns about each handle that is still open and closes it after the warning. Here warnings are errors, so the handle stayed
open, and `close` waited for it for ever, in C: one failed test that left a server open hung the whole run.
"""

import warnings

import uvloop


class ClosingLoop(uvloop.Loop):
    """Closes what a test left open, and only then complains about it."""

    def close(self) -> None:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            super().close()
        if found:
            left = "; ".join(str(warning.message) for warning in found)
            warnings.warn(f"the test left something open: {left}", ResourceWarning, stacklevel=2)
