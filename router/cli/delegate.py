"""`tandem delegate`: hand a task to a running router, to be done in the background."""

import argparse
import sys
from pathlib import Path

from router.cli import Ended
from router.cli.asking import Refused, Unreachable, explain_refusal
from router.cli.background import MOST_BYTES, Jobs, TaskRefused, TaskTooLong, find_agent_session, read_file, write_request
from router.cli.common import command_name, print_json, say
from router.cli.reaching import add_router_arguments, find_url, read_own_key
from router.cli.watching import watch
from router.contract.request import JsonObject
from router.contract.words import Tier

EXAMPLES = (
    'delegate "find the race in this queue" --file queue.py --file test_queue.py',
    'delegate "review this change" --file change.diff --tier deep --wait',
    "delegate - --wait > review.md",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK", help="what to do; - for standard input")
    parser.add_argument(
        "--file",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="quote a text file in the task, which sees nothing else; repeatable",
    )
    parser.add_argument("--tier", choices=tuple(map(str, Tier)), help="the tier (default: Tandem chooses)")
    parser.add_argument("--wait", action="store_true", help="wait for the answer and print it; Ctrl-C leaves the job running")
    add_router_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON: the response, with --wait each event of it on a line")


def run(arguments: argparse.Namespace) -> int:
    try:
        body = write_request(_read_task(arguments.task), [read_file(path) for path in arguments.file], arguments.tier)
    except TaskTooLong as error:
        raise Ended(2, f"{error}\n  hint: send less, for example only the part that the task is about") from error
    except TaskRefused as error:
        raise Ended(2, str(error)) from error
    jobs = Jobs(find_url(arguments.url), read_own_key(arguments.key_env))
    try:
        started = jobs.start(body, find_agent_session())
        job_id = str(started["id"])
        if not arguments.wait:
            return _report(started, job_id, as_json=arguments.json)
        say(f"{job_id} at {jobs.url}")
        return watch(jobs, job_id, as_json=arguments.json)
    except (Refused, Unreachable) as error:
        raise explain_refusal(jobs.url, error) from error


def _report(started: JsonObject, job_id: str, *, as_json: bool) -> int:
    if as_json:
        print_json(started)
        return 0
    print(job_id)
    name = command_name()
    say(f"  hint: {name} jobs watch {job_id} shows the answer as it comes; {name} jobs result {job_id} prints it")
    return 0


def _read_task(given: str) -> str:
    """Raises `TaskRefused`."""
    if given != "-":
        return given
    raw = sys.stdin.buffer.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise TaskTooLong(f"standard input is too long: at most {MOST_BYTES:,} bytes can be sent")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TaskRefused("standard input is not text in UTF-8") from error
