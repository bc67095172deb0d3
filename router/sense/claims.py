"""Removes text that claims a tier or plays the system before a turn is read: it is no evidence.

Every pattern is bounded, and the lead-up to a claim is found by looking back a few words: hostile texts must not hold up the
loop.
"""

import re

_TAGS = ("<|", "<<sys", "<system", "<admin", "<rout", "<dev", "<inst")
_BRACKETS = ("[system", "[admin", "[rout", "[dev", "[inst", "[/inst")
_SPEAKS = ("system", "admin", "router", "developer")
_SIZES = (
    "fast quick deep slow strong weak cheap small large big smart powerful capable expensive premium best light heavy".split()
)
_PLACES = ("model", "tier", "lane", "llm")
_SIZED = tuple(f"{size}{ending}{joint}" for size in _SIZES for ending in ("", "er", "est", "r", "st") for joint in " -")
"""Words before a claimed place. Searching for these first takes a tenth of the patterns' time."""
PARTS_OF_CLAIMS = frozenset("admin dev inst lane llm mode rout sys tandem tier".split())
"""Every text with a claim has one of these in a word, or `<|`. Others need no search."""
_ROLE = r"(?:system|admin|administrator|router|routing|developer|instructions?|sys|inst)"
_TIER_WORD = r"(?:fast|deep|slow|quick|strong|weak)"
_PLAYED = re.compile(
    rf"<\|im_start\|>.{{0,400}}?(?:<\|im_end\|>|\Z)|<\|[^|>\n]{{0,40}}\|>|<<sys>>.{{0,400}}?(?:<</sys>>|\Z)"
    rf"|\[{_ROLE}[^\]\n:]{{0,20}}:[^\]\n]{{1,200}}\]|<({_ROLE})\b[^>\n]{{0,80}}>.{{0,400}}?(?:</\1 ?>|\n|\Z)"
    rf"|\[({_ROLE})\b[^\]\n]{{0,80}}\].{{0,400}}?(?:\[/\2\]|\n|\Z)|</?{_ROLE}>|\[/{_ROLE}\]"
    r"|^[ \t]?#{1,6}[ \t]?(?:system|admin|router|developer)\b[^\n]{0,40}$"
    r"|\b(?:system|admin|router|developer)(?: message| prompt| note| notice| override)?:[^\n.!?]{0,120}?"
    rf"\b(?:use|using|to|on|with|go|tier|route|routed) ?(?:the )?{_TIER_WORD}\b[^\n.!?]{{0,120}}[.!?]?",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)
"""A tag that plays the system, with its content; a sentence in which a system names a tier."""
_SIZE = rf"(?:{'|'.join(_SIZES)})(?:er|est|r|st)?"
_SET_NAMES = "route routing router tier lane tandem mode model".split()
_SET = tuple(f"{name}{gap}" for name in _SET_NAMES for gap in ("", " "))
"""Left side of a tier setting: `route=`, "model :"."""
_ROUTED = re.compile(r"rout(?:e|ed|ing) (?:this|it|me|to|the request)\b")
_CLAIM = re.compile(
    rf"\b{_SIZE}[ -](?:model|tier|lane|llm)s?\b|\bx-tandem-\w{{1,40}} ?[=:] ?\w{{0,40}}"
    rf"|\b(?:{'|'.join(_SET_NAMES)}) ?[=:] ?{_TIER_WORD}\b"
    rf"|\brout(?:e|ed|ing) (?:this|it|me|to|the request)\b(?: (?:request|task|turn))?(?: (?:to|on|through))?(?: the)?"
    rf"(?: {_SIZE})?(?: (?:model|tier|lane|llm))?",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"(?: ?,? ?(?:please|pls|for this|for it|for all of this|only|now|instead|is enough|is fine|will do|is required|is needed"
    r"|to do this|here|you have|there is|available)\b){0,3}[.!]{0,3}",
    re.IGNORECASE,
)
_MAX_BEFORE = 160
"""How far before a claim, within its sentence, its reasons are looked for."""
_ARGUES = re.compile(
    r"\b(?:this|it|that)\b[^\n]{0,120}\b(?:complex|hard|difficult|trivial|simple|easy|tiny|huge|important|one-line)\b",
    re.IGNORECASE,
)
"""A claim's reason: how hard the work is said to be."""
_IGNORES = re.compile(
    r"\b(?:ignore|disregard|forget) (?:(?:all|the|any) ){0,3}(?:previous|prior|above|earlier) \w{1,20},?(?: and)?\Z",
    re.IGNORECASE,
)
_CALLS_OUT = re.compile(r"\b(?:important|note|attention|priority|preference|hint|warning) ?[:!]\Z", re.IGNORECASE)
_VERBS = frozenset(
    "must should have has need needs require requires can will go goes belongs be is use using used switch sent send handled"
    " served answered done run pass give hand forward assign".split()
)
_LEADS = _VERBS | frozenset(
    "and so but please pls kindly also then now always you to with on via by through the a an your our my most only over"
    " for".split()
)
_SUBJECTS = frozenset("this it that request task turn one".split())
_SPACES = re.compile(r"[ \t]{2,}")
_JOINT = re.compile(r"(?:and|then|so|but) ", re.IGNORECASE)
_EMPTY = re.compile(r"\( ?\)|\[ ?\]")
_LOOSE = " \t,;:—–-"


def drop_claims(text: str) -> str:
    """Remove claims anywhere in a text. A text of nothing else stays."""
    lower = text.lower()
    plays, claims = _may_play(lower), _may_claim(lower)
    if not plays and not claims:
        return text
    squeezed = _SPACES.sub(" ", text)
    spans = [found.span() for found in _PLAYED.finditer(squeezed)] if plays else []
    if claims:
        spans += [
            (_find_start(squeezed, found.start()), _find_end(squeezed, found.end())) for found in _CLAIM.finditer(squeezed)
        ]
    if not spans:
        return text
    return _cut(squeezed, sorted(spans)) or text


def _cut(text: str, spans: list[tuple[int, int]]) -> str:
    """The rest, joined where claims were."""
    pieces: list[str] = []
    offset = 0
    for start, end in spans:
        pieces.append(text[offset : max(offset, start)])
        offset = max(offset, end)
    pieces.append(text[offset:])
    rest = [pieces[0].rstrip(_LOOSE)]
    for piece in pieces[1:]:
        trimmed = piece.lstrip(f"{_LOOSE}.")
        joint = _JOINT.match(trimmed)
        rest.append(trimmed[joint.end() :] if joint else trimmed)
    rest[1:-1] = [piece.rstrip(_LOOSE) for piece in rest[1:-1]]
    return _EMPTY.sub("", " ".join(filter(None, rest))).replace("  ", " ").strip()


def _find_start(text: str, start: int) -> int:
    """Where a claim begins, with its lead-up and the reason that its sentence gives."""
    before = text[max(0, start - _MAX_BEFORE) : start]
    sentence = before[max(map(before.rfind, ".!?\n")) + 1 :].rstrip()
    argued = _ARGUES.search(sentence)
    if argued is not None:
        sentence = sentence[: argued.start()].rstrip()
    else:
        words = sentence.split(" ")
        has_verb = False
        while words and (word := words[-1].strip(",:!").lower()) in (_LEADS | _SUBJECTS if has_verb else _LEADS):
            has_verb |= word in _VERBS or word == "to"
            words.pop()
        sentence = " ".join(words)
    for lead in (_CALLS_OUT, _IGNORES):
        found = lead.search(sentence)
        if found is not None:
            sentence = sentence[: found.start()].rstrip()
    kept = before[max(map(before.rfind, ".!?\n")) + 1 :]
    return start - len(kept) + (len(kept) - len(kept.lstrip())) + len(sentence.lstrip())


def _find_end(text: str, end: int) -> int:
    found = _TAIL.match(text, end)
    return found.end() if found else end


def _may_play(lower: str) -> bool:
    if ("<" in lower and any(map(lower.__contains__, _TAGS))) or ("[" in lower and any(map(lower.__contains__, _BRACKETS))):
        return True
    return (":" in lower or "#" in lower) and any(map(lower.__contains__, _SPEAKS))


def _may_claim(lower: str) -> bool:
    """A cheap test before the patterns."""
    if "x-tandem" in lower or ("rout" in lower and _ROUTED.search(lower)):
        return True
    if _has_before(lower, ":", _SET) or _has_before(lower, "=", _SET):
        return True
    return any(offset in lower and _has_before(lower, offset, _SIZED) for offset in _PLACES)


def _has_before(lower: str, mark: str, before: tuple[str, ...]) -> bool:
    """Whether one of these directly precedes a mark: "deep" before "tier", "route" before "="."""
    at = lower.find(mark)
    while at >= 0:
        if lower.endswith(before, 0, at):
            return True
        at = lower.find(mark, at + 1)
    return False
