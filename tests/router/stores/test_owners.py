"""Names of processes that own jobs: whether one is gone."""

import os
import socket
import subprocess
import sys

import pytest

from router.stores.owners import is_gone, name_owner


def test_this_process_is_not_gone():
    assert not is_gone(name_owner())
    assert f":{os.getpid()}:" in name_owner()


@pytest.mark.starts
def test_a_process_that_ended_is_gone():
    script = "from router.stores.owners import name_owner; print(name_owner())"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert is_gone(ended.stdout.strip())


def test_a_process_whose_id_another_one_has_now_is_gone():
    host, pid, start = name_owner().rsplit(":", 2)

    assert is_gone(f"{host}:{pid}:{start}0")


@pytest.mark.parametrize("owner", ["", "worker", "elsewhere:1:1", f"{socket.gethostname()}:x:1", f"{socket.gethostname()}:1"])
def test_of_an_owner_that_is_no_process_of_this_machine_nothing_is_known(owner):
    assert not is_gone(owner)
