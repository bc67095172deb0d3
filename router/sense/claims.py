"""Text that claims a tier or plays the system is evidence of nothing: it is taken out before a turn is read."""

import re
from functools import cache

_PLAYS = ("<|", "<<sys", "<system", "<admin", "<rout", "<dev", "<inst", "[system", "[admin", "[rout", "[dev", "[inst", "[/inst")
_SPEAKS = ("system", "admin", "router", "developer")
_PLACES = ("model", "tier", "lane", "llm", "mode", "target", "backend", "rout")
_SIZES = (
    "fast quick deep slow strong weak cheap small large big smart powerful capable expensive premium best light heavy".split()
)
_SIZED = tuple(f"{size}{ending}{joint}" for size in _SIZES for ending in ("", "er", "est", "r", "st") for joint in " -")
"""What stands before a place that somebody claims. To look for these first takes a tenth of the time of the patterns below."""
_ROLE = r"(?:system|admin|administrator|router|routing|developer|instructions?|sys|inst)"
_PLAYED = (
    rf"<\|im_start\|>.*?(?:<\|im_end\|>|\Z)|<\|[^|>\n]{{0,40}}\|>|<<sys>>.*?(?:<</sys>>|\Z)"
    rf"|\[{_ROLE}[^\]\n:]{{0,20}}:[^\]\n]{{1,200}}\]|<({_ROLE})\b[^>\n]{{0,80}}>.*?(?:</\1\s*>|\n|\Z)"
    rf"|\[({_ROLE})\b[^\]\n]{{0,80}}\].*?(?:\[/\2\]|\n|\Z)|</?{_ROLE}>|\[/{_ROLE}\]"
    r"|^[ \t]*#{1,6}[ \t]*(?:system|admin|router|developer)\b[^\n]{0,40}$"
    r"|\b(?:system|admin|router|developer)(?: message| prompt| note| notice| override)?:[^\n.!?]*"
    r"\b(?:rout\w{1,3}|tier|fast|deep|slow|models?|lane|task)\b[^\n.!?]*[.!?]?"
)
"""A tag that plays the system, with what it holds; a sentence that a system is made to say."""
_SIZE = rf"(?:{'|'.join(_SIZES)})(?:er|est)?"
_PLACE = r"(?:model|tier|lane|llm|mode|route|router|target|backend)"
_CLAIM_TEXT = (
    rf"\b{_SIZE}[ -]{_PLACE}s?\b|\bx-tandem-\w+\s*[=:]\s*\w*"
    rf"|\b(?:route|routing|router|tier|lane|tandem|mode|model)\s*[=:]\s*{_SIZE}\b"
    rf"|\brout(?:e|ed|ing) (?:this|it|me|to|the request)\b(?: (?:request|task|turn))?(?: (?:to|on|through))?(?: the)?"
    rf"(?: {_SIZE})?(?: {_PLACE})?"
    rf"|\b(?:on|to|with|use|using|via|pick|choose|needs?|wants?) (?:the )?{_SIZE} tier\b"
)
_ROUTED = re.compile(r"rout(?:e|ed|ing) (?:this|it|me|to|the request)\b")
_SET_NAMES = "route routing router tier lane tandem mode model".split()
_SET_MARKS = tuple(f"{name}{gap}{sign}" for name in _SET_NAMES for gap in ("", " ") for sign in "=:")
_SET = re.compile(rf"(?:{'|'.join(_SET_NAMES)})\s*[=:]\s*{_SIZE}")
_CALLS_OUT = r"(?:important|note|attention|priority|preference|hint|warning)\s*[:!]\s*"
_IGNORE = r"(?:ignore|disregard|forget)\s+(?:all\s+|the\s+|any\s+)*(?:previous|prior|above|earlier)\s+\w+\s*,?\s*(?:and\s+)?"
_ARGUES = (
    r"(?:this|it|that)(?:\s+(?:request|task|turn|one))?\s+(?:is|was|needs?|requires?|looks|will|must|should|has|can|goes|belongs)\b"
    r"[^.!?\n]{0,120}?"
)
_HANDS_OVER = r"(?:send|give|hand|pass|assign|forward)\s+(?:this|it)(?:\s+(?:request|task))?\s+(?:over\s+)?"
_LEADS = (
    r"(?:and|so|but|please|pls|kindly|also|then|now|always|you|must|should|have|has|need|needs|requires?|can|will|goes?|belongs"
    r"|to|be|use|using|used|switch|sent|handled|served|answered|done|run|with|on|via|by|through|the|a|an|your|our|my|most|only)"
)
_TAILS = (
    r"please|pls|for this|for it|for all of this|only|now|instead|is enough|is fine|will do|is required|is needed|to do this"
    r"|here|you have|there is|available"
)
_CLAIM = (
    rf"(?:\b{_CALLS_OUT})?(?:\b{_IGNORE})?(?:\b{_ARGUES}|\b{_HANDS_OVER})?(?:\b{_LEADS}[\s,:!]+)*(?:{_CLAIM_TEXT})"
    rf"(?:\s*,?\s*(?:{_TAILS})\b)*[.!]*"
)
"""A claim with what leads up to it and argues for it, its polite ending, and its full stop."""
_EMPTY = re.compile(r"\(\s*\)|\[\s*\]")
_SPACES = re.compile(r"[ \t]{2,}")
_LOOSE_ENDS = re.compile(r"[ \t,;:—–-]*\Z")
_JOINTS = re.compile(r"\A[ \t,;:.—–-]*(?:(?:and|then|so|but)\s+)?", re.IGNORECASE)
_CUT = "\x00"


def drop_claims(text: str) -> str:
    """The text without its claims, wherever they stand. A text of nothing else is empty."""
    lower = text.lower()
    plays, claims = _may_play(lower), _may_claim(lower)
    if not plays and not claims:
        return text
    cut = _pattern(_PLAYED).sub(_CUT, text) if plays else text
    cut = _pattern(_CLAIM).sub(_CUT, cut) if claims else cut
    if _CUT not in cut:
        return text
    pieces = [_LOOSE_ENDS.sub("", piece) for piece in cut.split(_CUT)]
    pieces[1:] = [_JOINTS.sub("", piece) for piece in pieces[1:]]
    joined = _EMPTY.sub("", " ".join(filter(None, pieces)))
    return _SPACES.sub(" ", joined).strip()


@cache
def _pattern(text: str) -> "re.Pattern[str]":
    """Made when it is first needed: most processes never meet a claim."""
    return re.compile(text, re.IGNORECASE | re.DOTALL | re.MULTILINE)


def _may_play(lower: str) -> bool:
    if ("<" in lower or "[" in lower) and any(mark in lower for mark in _PLAYS):
        return True
    return (":" in lower or "#" in lower) and any(name in lower for name in _SPEAKS)


def _may_claim(lower: str) -> bool:
    """Whether a closer look is worth its time."""
    if "x-tandem" in lower or ("rout" in lower and _ROUTED.search(lower)):
        return True
    found = [place for place in _PLACES if place in lower]
    if not found and "tandem" not in lower:
        return False
    if (":" in lower or "=" in lower) and any(mark in lower for mark in _SET_MARKS) and _SET.search(lower):
        return True
    return any(_is_sized(lower, place) for place in found)


def _is_sized(lower: str, place: str) -> bool:
    """Whether a size stands before a place: "deep tier", "smartest model"."""
    at = lower.find(place)
    while at >= 0:
        if lower.endswith(_SIZED, 0, at):
            return True
        at = lower.find(place, at + 1)
    return False
