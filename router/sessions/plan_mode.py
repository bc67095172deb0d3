"""Plan mode as a request shows it, and how far its work is, which is read only where `combine: plan` is on.

Only texts of the client itself count: messages of role `system` or `developer`, and blocks in the client's own tag next to a
person's words or a tool's result. What a person typed, a file or a command's output may quote a mark: it changes nothing.
"""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from router.contract.request import Conversation, Message, RequestView
from router.contract.session import SessionState
from router.contract.signals import Turn
from router.contract.words import PERSONS_KINDS, PlanPhase, TurnKind
from router.sessions.clients import BY_NAME
from router.sessions.clients.client import PlanMarks
from router.sessions.marks import mark_turn

_LOOK_BACK, _LOOK_BACK_IN_BLOCKS, _QUICK_LOOK = (slice(None, -1 - most, -1) for most in (2_000, 100, 2))
"""Messages, newest first. A client states its mode where that begins; one that adds blocks repeats it."""
_PLAN = "plan"
_OWN_ROLES = ("system", "developer")


class PlanMemory(NamedTuple):
    """What a session remembers of its plan, in the words that say what both tiers do (`SessionState.combine`)."""

    phase: PlanPhase | None = None
    has_edited: bool = False
    """Whether the turn has left plan mode before."""

    @classmethod
    def read(cls, words: str) -> "PlanMemory":
        word = next((word for word in words.split(",") if word.startswith(_PLAN)), "")
        named, _, rest = word.partition(":")[2].partition(":")
        if named not in (PlanPhase.PLANNING, PlanPhase.EDITING):
            return cls()
        return cls(PlanPhase(named), rest == "again")

    def write(self, words: str) -> str:
        """The words with this in them."""
        if self.phase is None:
            return words
        rest = ":again" if self.has_edited else ""
        return ",".join(f"{_PLAN}:{self.phase}{rest}" if word == _PLAN else word for word in words.split(","))

    def after(self, turn: Turn) -> "PlanMemory":
        """What to remember once a request is answered."""
        match turn.plan:
            case PlanPhase.PLANNING:
                has_edited = turn.position.is_running and (self.has_edited or self.phase is PlanPhase.EDITING)
                return PlanMemory(PlanPhase.PLANNING, has_edited)
            case PlanPhase.ACCEPTED | PlanPhase.EDITING:
                return PlanMemory(PlanPhase.EDITING)
        return PlanMemory()


def read_plan(view: RequestView, turn: Turn, state: SessionState) -> Turn:
    """The turn with how far its plan is."""
    phase = read_phase(view, turn, state)
    if phase is None or phase is PlanPhase.UNKNOWN:
        return turn if phase is None else replace(turn, plan=phase)
    return replace(turn, plan=phase, is_planning=phase is PlanPhase.PLANNING)


def read_phase(view: RequestView, turn: Turn, state: SessionState) -> PlanPhase | None:
    """How far planned work is: by the request's own marks, and by where the session was at its last answer."""
    marks = BY_NAME[turn.client].plan
    if marks is not None and marks.editors and view.system.startswith(marks.editors):
        return PlanPhase.EDITING
    if turn.kind not in PERSONS_KINDS:
        return None
    if marks is None:
        return PlanPhase.UNKNOWN
    is_on = turn.is_planning or is_planning(view, marks, _LOOK_BACK_IN_BLOCKS if marks.block_tag else _LOOK_BACK)
    if is_on:
        return PlanPhase.PLANNING
    before = PlanMemory.read(state.combine)
    is_same = turn.position.is_running or state.turn == mark_turn(turn)
    if before.phase is PlanPhase.EDITING:
        return PlanPhase.EDITING if is_same or turn.kind is TurnKind.FOLLOW_UP else None
    was_on = before.phase is PlanPhase.PLANNING
    if not _is_accepted(view.conversation, turn, marks, was_on, is_on):
        return None
    # A mark that comes and goes within one turn takes its work down once.
    return PlanPhase.EDITING if before.has_edited and is_same else PlanPhase.ACCEPTED


def is_planning(view: RequestView, marks: PlanMarks, look_back: slice = _QUICK_LOOK) -> bool | None:
    """Whether its client plans, by its newest messages; None where they say nothing."""
    if marks.planners:
        return view.system.startswith(marks.planners)
    if marks.read_field is not None and (said := marks.read_field(view.body)) is not None:
        return said
    conversation = view.conversation
    items = conversation.items
    for index in range(len(items))[look_back]:
        try:
            role = items[index].get("role")  # type: ignore[union-attr]
        except AttributeError:  # a prompt without messages
            return None
        if role == "user":
            message = conversation.messages[index]
            if (len(message.texts) == 1 and not message.results) or not marks.block_tag:
                continue
        elif role not in _OWN_ROLES:
            continue
        for text in _own_texts(conversation.messages[index], marks):
            if (said := _find_mark(text, marks)) is not None:
                return said
    return None


def _own_texts(message: Message, marks: PlanMarks) -> Iterator[str]:
    """A message's texts that the client wrote, newest first, without the tag around them."""
    if message.role in _OWN_ROLES:
        yield from reversed(message.texts)
    else:
        opens, closes = f"<{marks.block_tag}>", f"</{marks.block_tag}>"
        added = [text.strip() for text in message.texts]
        if not message.results and all(text.startswith(opens) for text in added):
            return  # the person's own words are one of them
        for text in reversed(added):
            if text.startswith(opens) and text.endswith(closes):
                inner = text[len(opens) : -len(closes)]
                yield inner.rpartition(marks.last_heading)[2] if marks.last_heading else inner


def _find_mark(text: str, marks: PlanMarks) -> bool | None:
    """The last mark that begins a paragraph."""
    if not any(mark in text for mark in marks.on + marks.off):
        return None
    for paragraph in reversed(text.split("\n\n")):
        paragraph = paragraph.lstrip()  # noqa: PLW2901  marks begin with a letter
        if paragraph.startswith(marks.on):
            return True
        if paragraph.startswith(marks.off):
            return False
    return None


def _is_accepted(conversation: Conversation, turn: Turn, marks: PlanMarks, was_on: bool, is_on: bool | None) -> bool:
    if marks.exit_tool:
        return turn.goes_on and _was_let_out(conversation, marks.exit_tool)
    if marks.proposal:
        return not turn.goes_on and _was_proposed(conversation, marks.proposal)
    return was_on and (is_on is False or not turn.goes_on)


def _was_let_out(conversation: Conversation, tool: str) -> bool:
    """Whether the last answer asked to leave plan mode and the person agreed."""
    passed: set[str] = set()
    for index in range(len(conversation.items) - 1, -1, -1):
        message = conversation.messages[index]
        passed.update(result.call_id for result in message.results if not result.is_error)
        if message.role == "assistant" or message.calls:
            return any(call.name == tool and call.id in passed for call in message.calls)
    return False


def _was_proposed(conversation: Conversation, tag: str) -> bool:
    """Whether the last answer's text holds a plan."""
    for index in range(len(conversation.items) - 1, -1, -1):
        message = conversation.messages[index]
        if message.role == "assistant" and message.texts:
            return any(tag in text for text in message.texts)
        if message.calls or message.results:
            return False
    return False
