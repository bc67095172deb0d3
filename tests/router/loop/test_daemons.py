"""Work in a thread whose process can end at any time."""

import subprocess
import sys

import pytest

from router.loop.daemons import start_daemon

NEVER_ENDS = "import threading\nfrom router.loop.daemons import start_daemon\nstart_daemon('work', threading.Event().wait)\n"


def test_whoever_waits_gets_what_work_returns_or_raises():
    assert start_daemon("work", divmod, 7, 2).result(30) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        start_daemon("work", divmod, 7, 0).result(30)


@pytest.mark.starts
def test_a_process_ends_although_its_work_never_does():
    assert subprocess.run([sys.executable, "-c", NEVER_ENDS], timeout=30, check=False).returncode == 0
