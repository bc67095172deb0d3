"""A program ends with whoever started it."""

import os
import select
import signal
import subprocess
import sys

import pytest

PARENT = """
import subprocess, sys, time
from router.cli.orphans import end_with_parent

program = "import time; print('here', flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, preexec_fn=end_with_parent)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a program that its parent has ended")
def test_a_program_ends_when_the_process_that_started_it_is_killed():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = os.pidfd_open(int(parent.stdout.readline()))

    parent.kill()
    parent.wait()

    has_ended = bool(select.select([child], [], [], 60)[0])
    if not has_ended:
        signal.pidfd_send_signal(child, signal.SIGKILL)
    os.close(child)
    parent.stdout.close()
    assert has_ended
