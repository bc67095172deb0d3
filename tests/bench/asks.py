"""What the people of the benchmarks ask for. Written for them: no file that the reading of words is trained on has one of these."""

import itertools

_PLACES = (
    "the invoice export", "the session cookie", "our retry wrapper", "the CSV importer", "the avatar upload",
    "the tax table",
)  # fmt: skip
_FILES = ("billing/export.py", "web/cookies.ts", "net/retry.go", "importer.rb", "upload.rs", "Tax.java")
_QUICK = (
    "the log line in {file} says recieved, should be received",
    "drop the unused import at the top of {file}",
    "{place} prints a trailing comma, get rid of it",
    "bump the timeout for {place} to 45 seconds",
    "what does the second argument of parse_row in {file} do?",
    "add a docstring to the helper that {place} uses",
    "turn the print in {file} into a debug log",
    "make the button of {place} say Save instead of Submit",
    "why is there a sleep(2) in {file}?",
    "swap the two arguments in the call on line 88 of {file}",
)
_LONG = (
    "{place} has to work for several tenants: split its tables, move the data over and keep the old API alive meanwhile",
    "find out why {place} deadlocks about once a day in production, fix the cause and write a test that shows it",
    "rewrite {file} without the framework it uses, with the same behaviour, and port all of its tests",
    "design and build an audit trail for {place}, from the database to the admin screen, and document it",
    "we are moving from REST to gRPC: take {place} over as the first service, with clients, deployment and a rollback plan",
    "memory of the worker grows by 2 GB a day since {place} was released. track it down, I suspect more than one leak",
    "replace the hand-written parser behind {place} with a real grammar and make it ten times faster without changing any output",
    "go through every caller of {place}, work out which of them can race, and make the whole thing safe under concurrency",
)


def _write(patterns: tuple[str, ...]) -> tuple[str, ...]:
    places = zip(_PLACES, _FILES, strict=True)
    return tuple(pattern.format(place=place, file=file) for (place, file), pattern in itertools.product(places, patterns))


QUICK, LONG = _write(_QUICK), _write(_LONG)
