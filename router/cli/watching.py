"""Follows a background job to its end, over as many connections as it takes."""

import sys
import threading
from collections.abc import Callable

from router.cli.asking import Refused, Unreachable
from router.cli.background import Jobs, is_end, is_over, text_of, why_it_ended
from router.cli.common import command_name, print_json, say
from router.cli.figures import count, duration
from router.cli.text import drop_escapes
from router.contract.job import JobState
from router.contract.request import JsonObject
from router.dialects.fields import as_object

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 5.0
_STATES = {
    "response.queued": "queued",
    "response.in_progress": "running",
}
_TEXT = "response.output_text.delta"
Show = Callable[[str, JsonObject], None]


def follow_to_the_end(jobs: Jobs, job_id: str, show: Show, pause: Callable[[float], object] | None = None) -> JsonObject:
    """Pass every event to `show` once, reconnecting as needed, and return the final response.

    Raises `Unreachable` if no router answers at first, and `Refused` without such a job.
    """
    after, seconds, has_heard, is_lost = -1, _FIRST_PAUSE_SECONDS, False, False
    pause, response = pause or threading.Event().wait, None
    while True:
        try:
            for name, event in jobs.follow(job_id, after):
                number = event.get("sequence_number")
                after = number if isinstance(number, int) else after
                seconds, has_heard, is_lost = _FIRST_PAUSE_SECONDS, True, False
                show(name, event)
                if is_end(name):  # the stream is read to its close, before which the router notes that it was collected
                    response = as_object(event.get("response")) or jobs.read(job_id)
            if response is not None:
                return response
            if is_over(jobs.find(job_id)):
                return jobs.read(job_id)
            reason = "the connection was closed"
        except Unreachable as error:
            if response is not None:
                return response
            if not has_heard:
                raise
            reason = str(error)
        except Refused as error:
            if not has_heard or not error.may_pass:
                raise
            reason = f"status {error.status}"
        if not is_lost:
            say(f"lost the router at {jobs.url} ({reason}); trying again")
        has_heard = is_lost = True
        pause(seconds)
        seconds = min(seconds * 2, _LONGEST_PAUSE_SECONDS)


class Shown:
    """Writes an answer to standard output as it comes, and its states to standard error."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._as_json = as_json
        self._has_text, self._ends_line, self._state = False, True, ""
        self._is_terminal = sys.stdout.isatty()

    def take(self, name: str, event: JsonObject) -> None:
        if self._as_json:
            import orjson

            print(orjson.dumps(event).decode(), flush=True)
        elif name == _TEXT:
            self._write(str(event.get("delta", "")))
        elif (state := _STATES.get(name)) is not None and state != self._state:
            self._state = state
            say(state)

    def finish(self, response: JsonObject) -> int:
        """Returns the exit status."""
        if not self._as_json:
            if not self._has_text:
                self._write(text_of(response))
            if not self._ends_line:
                print(flush=True)
            say(describe_end(response))
        return 0 if response.get("status") == JobState.COMPLETED else 1

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(drop_escapes(text) if self._is_terminal else text)
            sys.stdout.flush()
            self._has_text, self._ends_line = True, text.endswith("\n")


def print_result(response: JsonObject, *, as_json: bool) -> int:
    """Returns the exit status."""
    shown = Shown(as_json=as_json)
    if as_json:
        print_json(response)
    return shown.finish(response)


def watch(jobs: Jobs, job_id: str, *, as_json: bool = False) -> int:
    """Returns the exit status. Ctrl-C does not stop the job."""
    shown = Shown(as_json=as_json)
    try:
        return shown.finish(follow_to_the_end(jobs, job_id, shown.take))
    except KeyboardInterrupt:
        name = command_name()
        say(f"\n{job_id} goes on without this command")
        say(f"  hint: {name} jobs watch {job_id} shows it again; {name} jobs cancel {job_id} stops it")
        return 130


def describe_end(response: JsonObject) -> str:
    state, why, facts = str(response.get("status")), why_it_ended(response), []
    began, ended, usage = response.get("created_at"), response.get("completed_at"), response.get("usage")
    if isinstance(began, int | float) and isinstance(ended, int | float) and ended > began:  # whole seconds
        facts.append(f"after {duration(ended - began)}")
    if isinstance(usage, dict) and isinstance(tokens := usage.get("output_tokens"), int):
        facts.append(f"{count(tokens)} tokens")
    line = " ".join([state, ", ".join(facts)]).rstrip()
    return f"{line}: {why}" if why else line
