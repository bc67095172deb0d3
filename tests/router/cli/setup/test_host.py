import pytest

from router.cli.setup.host import all_faults, find_host_fault
from router.config.faults import Fault
from router.config.load import ConfigError


def test_only_a_host_that_is_not_loopback_has_a_fault():
    assert find_host_fault("127.0.0.1") is None
    assert find_host_fault("0.0.0.0").path == "server.host"


@pytest.mark.parametrize("content", [{}, {"server": 3}, {"server": {"host": 3}}, {"server": {"host": "::1"}}])
def test_a_host_that_nobody_can_judge_adds_no_fault(content):
    fault = Fault("x", "wrong")

    assert all_faults(ConfigError("test", [fault], content)) == [fault]


def test_the_fault_of_a_host_joins_the_others():
    assert [fault.path for fault in all_faults(ConfigError("test", [Fault("x", "wrong")], {"server": {"host": "::"}}))] == [
        "x",
        "server.host",
    ]
