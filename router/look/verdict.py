"""Deep's answer → at most three objections, as quoted text. What it says is shown, never obeyed."""

import re
import unicodedata
from collections.abc import Iterable
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from router.contract.combine import LookEnd

FINE, OBJECTIONS, ODD = "fine", "objections", "odd"
LATE, FAILED, REFUSED, OVER_BUDGET = "late", "failed", "refused", "over budget"
LEFT, SUPERSEDED = "left", "superseded"
"""How a look ends (`LookEnd.end`). With all but `objections`, the answer ends as it was."""
_ENDS = {
    FINE: "deep looked it over: fine",
    ODD: "deep looked it over, and its answer could not be used",
    LATE: "deep was too late to look it over",
    FAILED: "deep could not look it over: the call failed",
    REFUSED: "deep could not look it over: it may not, or has no room now",
    OVER_BUDGET: "deep did not look it over: there is too little left of a budget",
    LEFT: "deep did not finish looking it over: nobody waited any more",
    SUPERSEDED: "deep did not finish looking it over: a newer request came",
}
MAX_OBJECTIONS = 3
_MAX_ANSWER, _MAX_FILE, _MAX_WORDS = 20_000, 160, 400
"""In characters. An answer that ignores its limit of tokens is not used."""
_SURE = ("certain", "likely", "possible")
FORM = f"""\
Answer with one JSON object and nothing else. If nothing is wrong: {{"fine": true}}
Else at most {MAX_OBJECTIONS} objections, the worst first, each about a file that was changed:
{{"fine": false, "objections": [{{"file": "path", "line": 12, "breaks": "what breaks, in one sentence", "sure": "likely"}}]}}
`line` may be null. `sure` is one of: {", ".join(_SURE)}."""
"""Follows the question, also one of the operator's own."""
_SPACES = re.compile(r"\s+")
_TAG = re.compile(r"<(?=[a-zA-Z/!?])")


class Objection(Struct, frozen=True):
    """`file` and `breaks` are cleaned."""

    file: str
    line: int | None
    breaks: str
    sure: str


class Verdict(NamedTuple):
    end: str
    objections: tuple[Objection, ...] = ()


class _Said(Struct):
    file: str
    breaks: str
    line: Annotated[int, Meta(ge=0, le=10_000_000)] | str | None = None
    sure: str | float | None = None


class _Answer(Struct):
    fine: bool = False
    objections: list[_Said] = []


_UNUSABLE = Verdict(ODD)
_read = msgspec.json.Decoder(_Answer).decode


def read_verdict(text: str, touched: Iterable[str], shown: str) -> Verdict:
    """Objections about files that were not changed are dropped. `shown` is all that deep got to see of the edits.

    A file that a command changed may have no known name: then a file that the edits mention counts.
    """
    begins, ends = text.find("{"), text.rfind("}")
    if not 0 <= begins < ends or len(text) > _MAX_ANSWER:
        return _UNUSABLE
    try:
        answer = _read(text[begins : ends + 1].encode("utf-8", "replace"))
    except (msgspec.MsgspecError, RecursionError):
        return _UNUSABLE
    if not answer.objections:
        return Verdict(FINE) if answer.fine else _UNUSABLE
    files = list(touched)
    kept = [objection for said in answer.objections if (objection := _keep(said, files, shown)) is not None]
    return Verdict(OBJECTIONS, tuple(kept[:MAX_OBJECTIONS])) if kept else _UNUSABLE


def _keep(said: _Said, touched: list[str], shown: str) -> Objection | None:
    file, breaks = clean(said.file, _MAX_FILE), clean(said.breaks, _MAX_WORDS)
    if not file or not breaks or not _was_touched(file, touched, shown):
        return None
    line = said.line if isinstance(said.line, int) and said.line > 0 else None
    sure = said.sure.lower() if isinstance(said.sure, str) else ""
    return Objection(file, line, breaks, sure if sure in _SURE else _SURE[-1])


def _was_touched(file: str, touched: list[str], shown: str) -> bool:
    """One may be named by its path from another folder."""
    plain = file.removeprefix("./")
    if any(
        known == plain or _is_below(known, plain) or _is_below(plain, known.removeprefix("./")) for known in touched if known
    ):
        return True
    return not all(touched) and plain in shown


def _is_below(path: str, end: str) -> bool:
    return bool(end) and path.endswith(f"/{end}")


def clean(text: str, max_chars: int) -> str:
    """One line of plain text: no control characters, tags, links or quotes that could end the quotation."""
    shown = "".join(" " if sign in "\t\r\n" else sign for sign in text[: 4 * max_chars] if _is_shown(sign))
    plain = _TAG.sub("‹", _SPACES.sub(" ", shown)).replace("](", "] (").replace("“", '"').replace("”", '"').strip()
    return plain if len(plain) <= max_chars else f"{plain[: max_chars - 1].rstrip()}…"


def _is_shown(sign: str) -> bool:
    return sign in "\t\r\n" or not unicodedata.category(sign).startswith("C")


def write_block(objections: tuple[Objection, ...]) -> str:
    """What is added to an answer, or kept as a job. It names its writer."""
    lines = [f"{number}) {_locate(each)}: “{each.breaks}” ({each.sure})" for number, each in enumerate(objections, 1)]
    return "\n".join(("deep looked this over:", *lines, "Say *fix it* and deep does."))


def _locate(objection: Objection) -> str:
    name = objection.file.replace("`", "'")
    return f"`{name}`" if objection.line is None else f"`{name}`, line {objection.line}"


def describe(look: LookEnd) -> str:
    """For `combined`: "deep looked it over: 1 objection"."""
    if look.end != OBJECTIONS:
        return _ENDS[look.end]
    return f"deep looked it over: {look.objections} objection{'s' if look.objections > 1 else ''}"
