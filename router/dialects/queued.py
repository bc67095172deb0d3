"""What a caller who waits for a target is told, in words and as a comment, which every reader of events skips."""

import orjson

from router.contract.relay import Headers
from router.contract.sinks import AnswerFact, Waiting
from router.dialects.overrides import PREFIX


def describe_wait(fact: Waiting) -> str:
    """Which target is waited for, and how long yet."""
    return f"waiting for {fact.target}, position {fact.position} of {fact.length}, about {max(1, round(fact.seconds))} s"


def name_decision(headers: Headers) -> dict[str, str]:
    """Who serves, and why: our own headers, by names of JSON."""
    return {name.removeprefix(PREFIX).replace("-", "_"): value for name, value in headers if name.startswith(PREFIX)}


def write_comment(fact: AnswerFact) -> bytes:
    """A fact in a stream over HTTP."""
    if isinstance(fact, Waiting):
        return f": {describe_wait(fact)}\n\n".encode()
    return b": tandem.decision %b\n\n" % orjson.dumps(name_decision(fact.headers))
