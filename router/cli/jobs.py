"""`tandem jobs`: list, read, follow and cancel background jobs."""

import argparse
import time
from collections.abc import Callable, Mapping
from datetime import date

from router.cli import Ended
from router.cli.asking import Refused, Unreachable, explain_refusal
from router.cli.background import Jobs, is_over
from router.cli.common import command_name, print_json, say
from router.cli.common import whole_number_between as whole
from router.cli.figures import UNKNOWN, clock, day_and_clock, duration, plural
from router.cli.reaching import add_router_arguments, find_url, read_own_key
from router.cli.tables import columns_here, style_here, write_table
from router.cli.text import clean, fit
from router.cli.watching import describe_end, print_result, watch
from router.contract.job import JobState
from router.contract.request import Json, JsonObject

EXAMPLES = (
    "jobs list",
    "jobs list --state running --json",
    "jobs watch resp_0198f3",
    "jobs result resp_0198f3 > review.md",
    "jobs cancel resp_0198f3",
    "jobs cancel resp_0198f3 --caller ada",
)
_TITLES = ("id", "state", "tier", "began", "took", "caller", "task")
_LEFT = ("id", "state", "tier", "began", "caller", "task")
_CALLER = _TITLES.index("caller")
_LEAST_TITLE = 12
_PAGE = 100
_MOST = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = "watch: follow the answer; result: print it"
    parser.add_argument("action", choices=tuple(_ACTIONS), help=actions)
    parser.add_argument("id", nargs="?", default="", metavar="ID", help="the job's id")
    add_router_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON; watch prints each event of the answer on a line")
    parser.add_argument("--caller", metavar="NAME", help="the caller's name: an admin may cancel its jobs")
    listing = parser.add_argument_group("list")
    listing.add_argument("--state", choices=tuple(map(str, JobState)), help="only jobs in this state")
    listing.add_argument("-n", "--count", type=whole(1, _MOST), metavar="N", help="how many (default: 20)")


def run(arguments: argparse.Namespace) -> int:
    """Exit code 1: the job is missing or incomplete."""
    action, name = arguments.action, command_name()
    if action == "list" and arguments.id:
        raise Ended(2, f"{name} jobs list takes no id\n  hint: {name} jobs show {arguments.id}")
    if action != "list" and not arguments.id:
        raise Ended(2, f"{name} jobs {action} needs the id of a job\n  hint: {name} jobs list prints them")
    if action != "list" and (arguments.state or arguments.count):
        raise Ended(2, f"{'--state' if arguments.state else '-n'} is an option of {name} jobs list, not of {action}")
    if action != "cancel" and arguments.caller:
        raise Ended(2, f"--caller is an option of {name} jobs cancel, not of {action}")
    jobs = Jobs(find_url(arguments.url), read_own_key(arguments.key_env))
    try:
        return _ACTIONS[action](jobs, arguments)
    except (Refused, Unreachable) as error:
        is_missing = isinstance(error, Refused) and error.status == 404 and arguments.id
        owner = jobs.find_owner(arguments.id) if is_missing else ""
        raise _explain(error, jobs.url, arguments.id, owner) from error


def _explain(error: Refused | Unreachable, url: str, job_id: str, owner: str) -> Ended:
    if owner:
        words = f"{job_id} is a job of the caller {owner}, who alone can read and watch it"
        hint = f"{command_name()} jobs cancel {job_id} --caller {owner} cancels it"
        return Ended(1, f"{words}\n  hint: {hint}; --key-env names the variable with that caller's key")
    if isinstance(error, Refused) and error.status == 404 and job_id:
        hint = f"{command_name()} jobs list prints your jobs; after jobs.keep_hours they are deleted"
        return Ended(1, f"there is no job {job_id} at {url}\n  hint: {hint}")
    return explain_refusal(url, error)


def _list(jobs: Jobs, arguments: argparse.Namespace) -> int:
    found = _collect(jobs, arguments.state, arguments.count or 20)
    if arguments.json:
        print_json(found)
        return 0
    if not found:
        state = f" {arguments.state}" if arguments.state else ""
        say(f'there are no{state} jobs at {jobs.url}\n  hint: {command_name()} delegate "TASK" starts one')
        return 0
    print("\n".join(_write_rows(found, time.time())))
    if dead := sum(bool(job.get("undelivered")) for job in found):
        say(f"* {plural(dead, 'job')}: no webhook took the event of its end; {command_name()} jobs show ID names it")
    return 0


def _collect(jobs: Jobs, state: str | None, wanted: int) -> list[JsonObject]:
    found: list[JsonObject] = []
    before = None
    while len(found) < wanted:
        page = jobs.list_jobs(state, min(_PAGE, wanted - len(found)), before)
        found += page.jobs
        before = page.before
        if before is None or not page.jobs:
            break
    return found[:wanted]


def _write_rows(found: list[JsonObject], now: float) -> list[str]:
    """A line per job, cut to the terminal. Callers are named if there are several."""
    style = style_here()
    rows, titles = [_row(job, now) for job in found], [*_TITLES]
    if len({row[_CALLER] for row in rows}) == 1 and all(row[-1] for row in rows):
        for row in (*rows, titles):
            del row[_CALLER]
    taken = sum(max(len(row[index]) for row in [*rows, titles]) + 2 for index in range(len(titles) - 1))
    room = max(columns_here() - taken, _LEAST_TITLE)
    cut = [[*row[:-1], fit(clean(row[-1], style), room, style)] for row in rows]
    return write_table(titles, cut, style, left=_LEFT)


def _row(job: JsonObject, now: float) -> list[str]:
    began, ended = _moment(job, "created_at"), _moment(job, "ended_at")
    took = duration((ended or now) - began) if began is not None else UNKNOWN
    known = [str(job.get(name) or UNKNOWN) for name in ("id", "state", "tier")]
    known[1] += "*" if job.get("undelivered") else ""
    return [*known, _say_when(began, now), took, str(job.get("caller") or UNKNOWN), str(job.get("title") or "")]


def _say_when(at: float | None, now: float) -> str:
    """The time of day, with the day if not today."""
    if at is None:
        return UNKNOWN
    is_today = date.fromtimestamp(at) == date.fromtimestamp(now)
    return clock(at) if is_today else day_and_clock(at)


def _moment(job: JsonObject, name: str) -> float | None:
    at = job.get(name)
    return float(at) if isinstance(at, int | float) else None


def _show(jobs: Jobs, arguments: argparse.Namespace) -> int:
    job = jobs.find(arguments.id)
    if arguments.json:
        print_json(job)
        return 0
    style = style_here()
    began, ended, attempts = _moment(job, "created_at"), _moment(job, "ended_at"), job.get("attempts")
    lines = {
        "job": job.get("id"),
        "state": f"{job.get('state')}{f', attempt {attempts}' if isinstance(attempts, int) and attempts > 1 else ''}",
        "tier": job.get("tier"),
        "began": day_and_clock(began) if began is not None else None,
        "took" if ended is not None else "for": duration((ended or time.time()) - began) if began is not None else None,
        "webhook": _describe_undelivered(job.get("undelivered")),
        "task": job.get("title"),
        "caller": None if job.get("title") else job.get("caller"),
    }
    for name, value in lines.items():
        if value:
            print(f"{name:<10}  {clean(str(value), style)}")
    next_step = "result" if is_over(job) else "watch"
    say(f"  hint: {command_name()} jobs {next_step} {arguments.id}")
    return 0


def _describe_undelivered(events: Json) -> str:
    return (
        f"{', '.join(map(str, events))} was not delivered: no receiver took it" if isinstance(events, list) and events else ""
    )


def _result(jobs: Jobs, arguments: argparse.Namespace) -> int:
    job = jobs.find(arguments.id)
    if not is_over(job):  # a watcher may ask before the end is stored: the last words come first
        time.sleep(0.5)
        job = jobs.find(arguments.id)
    if not is_over(job):
        hint = f"{command_name()} jobs watch {arguments.id} shows it as it comes"
        raise Ended(1, f"{arguments.id} is not finished: {job.get('state')}\n  hint: {hint}")
    return print_result(jobs.read(arguments.id), as_json=arguments.json)


def _cancel(jobs: Jobs, arguments: argparse.Namespace) -> int:
    if arguments.caller:
        return _cancel_others(jobs, arguments)
    response = jobs.cancel(arguments.id)
    if arguments.json:
        print_json(response)
    elif response.get("status") == JobState.CANCELLED:
        say(f"{arguments.id} is cancelled; {command_name()} jobs result {arguments.id} prints what it had written")
    elif is_over(response):
        say(f"{arguments.id} was over before: {describe_end(response)}")
    else:
        say(f"{arguments.id} is being cancelled")
    return 0


def _cancel_others(jobs: Jobs, arguments: argparse.Namespace) -> int:
    job = jobs.cancel_others(arguments.id, arguments.caller)
    state, whose = job.get("state"), f"{arguments.id} of {arguments.caller}"
    if arguments.json:
        print_json(job)
    elif state == JobState.CANCELLED:
        say(f"{whose} is cancelled")
    else:
        say(f"{whose} was over before: {state}" if is_over(job) else f"{whose} is being cancelled")
    return 0


_ACTIONS: Mapping[str, Callable[[Jobs, argparse.Namespace], int]] = {
    "list": _list,
    "show": _show,
    "watch": lambda jobs, arguments: watch(jobs, arguments.id, as_json=arguments.json),
    "result": _result,
    "cancel": _cancel,
}
