"""What a caller is told in a stream whose head had to leave before it was known who serves: comments, in every dialect.

A reader of events skips them. Over a socket, which has no comments, each becomes a frame.
"""

import orjson

from router.contract.relay import Headers

WAITING, DECISION = b"waiting for ", b"tandem.decision "
_OWN = "x-tandem-"


def waiting_comment(target: str, position: int, length: int, seconds: float) -> bytes:
    """Which target is waited for, and how long yet."""
    place = f"position {position} of {length}, about {max(1, round(seconds))} s"
    return b": %b%b\n\n" % (WAITING, f"{target}, {place}".encode())


def decision_comment(headers: Headers) -> bytes:
    """Who serves, and why: our own headers, as JSON."""
    told = {name.removeprefix(_OWN).replace("-", "_"): value for name, value in headers if name.startswith(_OWN)}
    return b": %b%b\n\n" % (DECISION, orjson.dumps(told))
