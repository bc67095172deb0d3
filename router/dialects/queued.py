"""What a caller who waits for a target is told, in words and as a comment, which every reader of events skips."""

from typing import assert_never

import orjson

from router.contract.relay import Headers
from router.contract.sinks import AnswerFact, Serving, Waiting
from router.dialects.overrides import PREFIX


def describe_wait(fact: Waiting) -> str:
    """Which target is waited for, and how long yet."""
    return f"waiting for {fact.target}, position {fact.position} of {fact.length}, about {max(1, round(fact.seconds))} s"


def name_decision(headers: Headers) -> dict[str, str]:
    """Who serves, and why: our own headers, by names of JSON."""
    return {name.removeprefix(PREFIX).replace("-", "_"): value for name, value in headers if name.startswith(PREFIX)}


def write_comment(fact: AnswerFact) -> bytes:
    """A fact in a stream over HTTP."""
    match fact:
        case Waiting():
            words = describe_wait(fact).encode()
        case Serving():
            words = b"tandem.decision " + orjson.dumps(name_decision(fact.headers))
        case _:
            assert_never(fact)
    return b": %b\n\n" % words
