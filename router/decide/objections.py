"""What the person makes of deep's objections in the turn after them: to act on them is work for deep.

That there were objections is remembered with the session. Words alone, which anybody can write into an answer, move nothing.
"""

import re

from msgspec.structs import replace

from router.contract.combine import ACTED_ON, WAVED_OFF
from router.contract.facts import Decided
from router.contract.opinions import Lean
from router.contract.words import BEGINS, TurnKind
from router.decide.choose import choose
from router.decide.estimate import worth_waiting
from router.decide.opinions import OBJECTIONS, Rules, with_lean

LOG_ODDS = 8.0
"""More than any reading of the words says against it."""
_LEAN = Lean(LOG_ODDS, "you act on what deep objected to", names_turn=True, points_back=True)
_MAX_CHARS = 300
_REFUSES = re.compile(
    r"\W*(?:no|nope|nah|not|nein|non|нет|never ?mind|ignore|skip|leave|forget|do ?n[o'’]t|does ?n[o'’]t"
    r"|(?:that|it)['’]?s (?:fine|ok|okay|wrong))\b",
    re.IGNORECASE,
)
_FIXES = re.compile(
    r"\b(?:fix|correct|repair|address|resolve|solve|handle|amend|behebe?|korrigiere?|reparie?re?|corrige[zr]?|arregla|исправь)\b"
    r"(?:\s+(?:up|just|only|please|bitte|all|both|of|the|two|three|any))*"
    r"(?:\s*\W*$"
    r"|\s+(?:it|them|both|these two|es|beides?|lo|los|le|les|ça|это|#?[1-3])\b"
    r"|\s+(?:this|that|these|those|all|everything|das|die|alles|tout|todo|objections?|issues?|problems?|bugs?)\b"
    r"(?=\W*$|\W*[,.;!?]|\s+(?:and|then|please|too|now|first|und|bitte|et|y)\b))"
    r"|直して|修正して|修复|修一下|고쳐",
    re.IGNORECASE,
)
"""The word itself, and what it points at: `fix it`, not `fix this file`."""


def answer_objections(rules: Rules, decided: Decided) -> Decided:
    """Lean to deep where the person acts on deep's objections, and say what became of them (`look_before`)."""
    turn = decided.decision.turn
    if turn.kind not in BEGINS or turn.goes_on or not decided.session.state.has_objections:
        return decided
    if not _acts(decided):
        return replace(decided, decision=replace(decided.decision, look_before=WAVED_OFF))
    opinions = with_lean(decided.opinions, OBJECTIONS, _LEAN)
    decision = replace(choose(rules, decided.view, decided.decision.signals, opinions), look_before=ACTED_ON)
    worth = worth_waiting(decision)
    return replace(decided, decision=decision, opinions=opinions, worth_waiting_seconds=worth)


def _acts(decided: Decided) -> bool:
    turn, looks = decided.decision.turn, decided.opinions.looks
    words = turn.person_text or ""
    if len(words) > _MAX_CHARS or _REFUSES.match(words):
        return False
    return turn.kind is TurnKind.FOLLOW_UP or (looks is not None and looks.points_back) or _FIXES.search(words) is not None
