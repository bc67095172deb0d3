"""The log of an agent on its way to the router."""

import pytest

from router.cli.agent.log import AgentLog
from router.cli.asking import Unreachable
from tests.tools.coding_agents import AWAY, NotedJobs


@pytest.fixture
def jobs():
    return NotedJobs()


def make_log(jobs, path, **more) -> AgentLog:
    path.touch()
    return AgentLog(jobs, "resp_1", "outside-1", 5, path, **more)


def test_what_could_not_be_sent_is_sent_under_the_same_number(jobs, tmp_path):
    log = make_log(jobs, tmp_path / "log")
    log.note("begins")
    jobs.faults = [AWAY]

    with pytest.raises(Unreachable):
        log.send()
    log.note("goes on")
    log.finish()

    assert jobs.log == {5: "tandem: begins\n", 6: "tandem: goes on\n"}


def test_a_character_that_is_cut_in_two_arrives_whole(jobs, tmp_path):
    log, whole = make_log(jobs, tmp_path / "log"), "größer".encode()
    for cut in (whole[:3], whole[3:], b"\xff\n"):
        with (tmp_path / "log").open("ab") as file:
            file.write(cut)
        log.send()

    assert jobs.text == "größer\ufffd\n"


def test_of_a_long_log_the_beginning_and_the_end_are_kept(jobs, tmp_path):
    log = make_log(jobs, tmp_path / "log", most_bytes=1_000)
    (tmp_path / "log").write_bytes(b"b" * 1_000 + b"m" * 100_000 + b"e" * 65_536)

    log.send()
    assert jobs.text == "b" * 1_000
    log.finish()

    left_out = "\ntandem: 100,000 bytes of the log are left out here\n"
    assert jobs.text == "b" * 1_000 + left_out + "e" * 65_536
