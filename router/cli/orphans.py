"""Programs that must not outlive the process that started them, however that ends. Linux alone can see to that."""

import ctypes
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def _end_with_parent() -> None:
    """Have the system ask this process to end when its parent ends. What it has started is left to it."""
    assert _prctl is not None
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


end_with_parent: Callable[[], None] | None = _end_with_parent if _prctl is not None else None
"""For `preexec_fn` of a program that is started; None where the system cannot do it."""
