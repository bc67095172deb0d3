"""Jobs that wait to be collected, as lines."""

from router.contract.caller import LOCAL
from router.contract.job import EndedJob, JobState
from router.screen.figures import clock
from router.screen.jobs import read_jobs, write_jobs


def make(name: str, state: JobState = JobState.COMPLETED) -> EndedJob:
    return EndedJob(name, LOCAL, "s", state, "a title that nobody sees here", 1_000.0)


def test_a_job_is_one_line_with_its_end_and_the_command_that_collects_it():
    assert write_jobs([make("resp_1", JobState.FAILED)]) == [
        f"resp_1 failed at {clock(1_000.0)}, not collected; tandem jobs result resp_1"
    ]


def test_of_many_the_newest_are_shown_and_the_others_counted():
    lines = write_jobs([make(f"resp_{number}") for number in range(5)])

    assert lines[0] == "and 2 more background jobs to collect; tandem jobs list"
    assert [line.split()[0] for line in lines[1:]] == ["resp_2", "resp_3", "resp_4"]


def test_a_router_elsewhere_reports_the_same_in_its_stats():
    jobs = [{"id": "resp_1", "state": "completed", "ended_at": 1_000.0}, {"id": 7}, "x", {"id": "resp_2", "state": "x"}]

    assert read_jobs({"jobs": jobs}) == write_jobs([make("resp_1")])
    assert read_jobs({}) == read_jobs({"jobs": None}) == []
