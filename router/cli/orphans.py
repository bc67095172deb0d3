"""Makes child processes end with their parent, however it ends. Linux only."""

import ctypes
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def _end_with_parent() -> None:
    """Have the system send SIGTERM when the parent ends. Grandchildren are left to the child."""
    assert _prctl is not None
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


end_with_parent: Callable[[], None] | None = _end_with_parent if _prctl is not None else None
"""For `preexec_fn`; None where the system cannot do it."""
