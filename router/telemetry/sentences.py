"""Events as sentences for a person, each from the event's own fields. The cure comes last, and nothing is a code.

An empty sentence is for programs alone: people see it elsewhere, as a head, a turn or a total.
"""

from collections.abc import Callable, Mapping
from typing import Any

from router.contract.notices import ACCOUNT_FAULTS

Fields = Mapping[str, Any]


def say_event(name: str, fields: Fields) -> str:
    sentence = _SENTENCES[name]
    return sentence.format_map(fields) if isinstance(sentence, str) else sentence(fields)


def _join(first: str, parts: list[str]) -> str:
    """One line, without the hints: `tandem check` and `tandem reload` print them."""
    lines = [part.partition("\n")[0] for part in parts]
    return f"{first}: {'; '.join(lines)}" if lines else first


def _say_reloaded(fields: Fields) -> str:
    waits = ", ".join(fields["needs_restart"])
    said = [*fields["changed"], *([f"needs a restart, and stays as before until then: {waits}"] if waits else [])]
    return _join("config reloaded", said or ["nothing changed"])


def _say_misconfigured(fields: Fields) -> str:
    what, hint = ACCOUNT_FAULTS[fields["fault"]]
    words = f" ({fields['words']})" if fields["words"] else ""
    return f"{fields['target']}: {what}{words}; hint: {hint}"


def _say_revoked(fields: Fields) -> str:
    counted = {name: fields[name] for name in ("waiting_jobs", "running_jobs", "sockets", "feeds")}
    ended = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counted.items() if count)
    why = f"key {key} no longer works" if (key := fields["key"]) else "a key is needed now"
    return f"{why}, which ended {ended}"


def _say_key_refused(fields: Fields) -> str:
    return f"a key was refused{f' ({key})' if (key := fields.get('key')) else ''}: {fields['reason']}"


def _say_ledger_failed(fields: Fields) -> str:
    lost = f", and {fields['lost']} rows are lost" if fields["lost"] else ""
    return f"the ledger cannot be written ({fields['reason']}){lost}; tandem check --live says more"


def _say_clock_differs(fields: Fields) -> str:
    where = "ahead" if fields["seconds"] > 0 else "behind"
    return f"the clock of the {fields['store']} server is {abs(fields['seconds']):g} s {where}; set both clocks by NTP"


def _say_stalled(fields: Fields) -> str:
    where = f" in {fields['where']}" if fields["where"] else ""
    return (
        f"the router stood still for {fields['seconds']:.1f} s{where}, so all requests waited; a busy machine can be the cause"
    )


_SENTENCES: Mapping[str, str | Callable[[Fields], str]] = {
    "server.started": "",
    "server.stopping": "stopping",
    "server.stopped": "",
    "config.warned": "{warning}",
    "config.reloaded": _say_reloaded,
    "config.kept": lambda fields: _join(
        f"{fields['config']} was not taken, and the config before it stays in use", fields["faults"]
    ),
    "policy.switched_off": "policy {policy} ({source}) is switched off: {why}; fix it, then tandem reload",
    "policy.skipped": "policy {policy} was skipped: {reason}",
    "secrets.reloaded": lambda fields: _join("secrets reloaded", fields["changed"]),
    "keys.reloaded": lambda fields: _join("keys reloaded", fields["changed"]),
    "keys.kept": lambda fields: _join("the key file was not taken, and no key was added or revoked", fields["faults"]),
    "keys.lost": "the key file has been missing for {after_seconds} s, and no caller's key works until it is back",
    "key.revoked": _say_revoked,
    "key.refused": _say_key_refused,
    "page.file_missing": "the live page has no file {name}; if the page stays empty, install Tandem again",
    "connections.refused": "{address} has {limit} connections open, and {refused} more were closed"
    "; limits.max_connections_per_address allows more",
    "accept.paused": "all {handles} file handles are in use, so new connections wait; raise the limit with ulimit -n",
    "memory.exceeded": "{used_mb} MB of memory are in use, so new requests get 503; limits.max_memory_mb is {limit_mb}",
    "memory.recovered": "{used_mb} MB of memory are in use, less than {limit_mb}, and requests are accepted again",
    "target.misconfigured": _say_misconfigured,
    "window.learned": "{target}: its context window is {tokens} tokens, not {configured}; set window_tokens to it",
    "queue.formed": "{target}: requests wait for its quota, the first for about {seconds} s",
    "caller.limited": "{caller} has reached {limit}, and may retry in {seconds} s",
    "socket.refused": "{target}: it refuses WebSockets ({reason}), so HTTP is used for {seconds:g} s",
    "tokens.uncounted": "tokens are estimated, since they cannot be counted exactly: {reason}",
    "ledger.failed": _say_ledger_failed,
    "ledger.uncopied": "{rows} rows of the ledger are missing in shared.postgres for good ({reason})",
    "store.failed": "a response could not be written to store.path or read from it ({reason}); it stays in memory for an hour",
    "responses.lost": "{count} stored responses are lost, since the shared database did not take them",
    "store.lost": "{store} cannot be used ({reason}); requests are served without it, and it is tried again",
    "store.back": "{store} can be used again, after {seconds} s",
    "store.refused": "{store} refused a command ({reason}), {count} times since the start",
    "store.value_unreadable": "{store} holds something else under a key of ours ({kind}); give each program its own prefix",
    "pulse.ignored": "messages of another router were ignored ({reason}), {count} since the start",
    "clock.differs": _say_clock_differs,
    "clock.leapt": "the time of day leapt by {seconds:.0f} s; nothing expires for it until it has lasted a day",
    "jobs.failed": "background jobs cannot be written ({reason}); new ones are refused until they can",
    "job.accepted": "",
    "job.started": "",
    "job.ended": "job {job} {state}",
    "store.migrating": "migrating {file} ({megabytes} MB); the router serves as soon as that is done",
    "store.migrated": "{file} was migrated from version {before} to {version}; the old file is kept as {copy}",
    "store.rows_deleted": "{rows} rows of {table} older than {kept_days} days were deleted from {file}",
    "store.compacted": "{file} was compacted, which gave {megabytes} MB back to the disk",
    "store.clock_leapt": "the clock is {days} days ahead of the last run, so nothing in {file} is deleted by age for now",
    "budget.near": "{caller} has spent {spent_usd:.2f} USD of its {period} budget of {limit_usd:.2f} USD",
    "budget.spent": "{caller} was refused: {spent_usd:.2f} USD of its {period} budget of {limit_usd:.2f} USD are spent",
    "alert.unsent": "alerts.webhook did not take an alert ({kind} {subject}): {reason}",
    "webhook.given_up": "a webhook did not take the end of {job} in {tries} tries ({reason}); tandem jobs list shows it",
    "traces.lost": "the traces of {lost} requests were not sent: {reason}",
    "bridge.failed": "{target}: its answer could not be translated ({kind} in {where})",
    "task.failed": "a bug ended the task {task} ({kind} in {where}); it is started again in {again_in_seconds:g} s",
    "loop.stalled": _say_stalled,
    "fault.caught": "a bug in Tandem ended request {request_id} ({kind} in {where})",
}
