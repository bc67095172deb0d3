"""Tandem's response headers, and the stream comments that report a wait or a decision."""

from functools import lru_cache

import orjson

from router.contract.decision import Decision
from router.contract.facts import AttemptOpened
from router.contract.relay import Headers
from router.contract.request import JsonObject
from router.contract.sinks import AnswerFact, Waiting
from router.contract.target import Target
from router.dialects.overrides import PREFIX

REQUEST_ID = "x-tandem-request-id"
BECAUSE = "x-tandem-because"
OVERHEAD = "x-tandem-overhead-ms"
DROPPED = "x-tandem-dropped"
QUEUED = ("x-tandem-target", "queued")
"""Sent while a request waits for quota."""
_MAX_BECAUSE = 240
_MAX_EXPLAIN = 4_000
_MAX_DROPPED, _MAX_NAME = 400, 80


def sdk_id_headers(request_id: str) -> Headers:
    """The request id under OpenAI's and Anthropic's names, for answers without a target."""
    return ("x-request-id", request_id), ("request-id", request_id)


def with_both_ids(headers: Headers, request_id: str) -> Headers:
    """A target's headers with its request id under both names, or ours if it sent none."""
    given = dict(headers)
    own = given.get("x-request-id") or given.get("request-id") or request_id
    return tuple(({"x-request-id": own, "request-id": own} | given).items())


def id_headers(request_id: str) -> Headers:
    return (REQUEST_ID, request_id), *sdk_id_headers(request_id)


@lru_cache(maxsize=1024)
def header_text(text: str, most: int = _MAX_BECAUSE) -> str:
    line = " ".join(text.encode("ascii", "replace").decode("ascii").split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


def dropped_text(names: tuple[str, ...]) -> str:
    """Names that do not fit are counted."""
    shown: list[str] = []
    room = _MAX_DROPPED
    for name in names:
        text = "".join([sign if " " <= sign <= "~" and sign != "," else "?" for sign in name[:_MAX_NAME].replace(",", "")])
        room -= len(text) + 2
        if room < 0:
            return f"{', '.join(shown)}, and {len(names) - len(shown)} more"
        shown.append(text)
    return ", ".join(shown)


def because_served(decision: Decision, target: Target, failed: str) -> str:
    return f"{failed}, so {target.name} answers: {decision.because}" if failed else decision.because


def answer_headers(
    request_id: str,
    decision: Decision,
    opened: AttemptOpened,
    overhead_ms: float,
    carried: Headers = (),
    explanation: JsonObject | None = None,
) -> Headers:
    """Headers that say who serves and why.

    `overhead_ms` is Tandem's time until the first call. `carried` are headers that the client should send back; `explanation`
    is the whole decision, if requested.
    """
    target, because = opened.target, decision.because
    if opened.failed:
        because = because_served(decision, target, opened.failed)
    headers = (
        (REQUEST_ID, request_id),
        ("x-tandem-tier", target.tier._value_),
        ("x-tandem-target", target.name),
        (BECAUSE, header_text(because)),
        ("x-tandem-score", f"{decision.score:.3f}"),
        (OVERHEAD, f"{overhead_ms:.2f}"),
        *carried,
    )
    if opened.dropped:
        headers = (*headers, (DROPPED, dropped_text(opened.dropped)))
    if explanation is None:
        return headers
    whole = {key: value for key, value in explanation.items() if key != "person_text"}
    whole["drops"] = {target.name: list(opened.dropped)} if opened.dropped else {}
    text = _ascii_json(whole)
    if len(text) > _MAX_EXPLAIN:
        text = _ascii_json({key: whole[key] for key in ("tier", "score", "because", "decided_by", "estimates", "flip")})
    return (*headers, ("x-tandem-explain", text))


def _ascii_json(value: JsonObject) -> str:
    return orjson.dumps(value).decode().encode("ascii", "backslashreplace").decode("ascii")


def describe_wait(fact: Waiting) -> str:
    return f"waiting for {fact.target}, position {fact.position} of {fact.length}, about {max(1, round(fact.seconds))} s"


def name_decision(headers: Headers) -> dict[str, str]:
    return {name.removeprefix(PREFIX).replace("-", "_"): value for name, value in headers if name.startswith(PREFIX)}


def write_comment(fact: AnswerFact) -> bytes:
    if isinstance(fact, Waiting):
        return f": {describe_wait(fact)}\n\n".encode()
    return b": tandem.decision %b\n\n" % orjson.dumps(name_decision(fact.headers))
