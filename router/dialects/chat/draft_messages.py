"""A draft's conversation as chat messages: calls gathered in one message, directly followed by their results."""

from router.contract.request import Json, JsonObject
from router.dialects.fields import as_list, as_object, as_text
from router.dialects.translate.context import WriteContext, marked, marked_error
from router.dialects.translate.draft import (
    Draft,
    DraftCall,
    DraftReasoning,
    DraftResult,
    DraftText,
    File,
    Image,
    Line,
    Mark,
    Part,
    Text,
    cannot_carry,
    last_mark,
    texts,
)
from router.dialects.translate.envelope import REASONING_CONTENT, unwrap

_SIGNATURE: JsonObject = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""What a host that signs its calls documents for calls of other models."""


def write_messages(draft: Draft, context: WriteContext) -> list[Json]:
    return _Messages(draft, context).write()


class _Messages:
    """Holds back lines between a call and its result until after the result."""

    def __init__(self, draft: Draft, context: WriteContext) -> None:
        self._draft, self._context = draft, context
        self._written: list[Json] = []
        self._assistant: JsonObject | None = None
        self._takes_marks = context.caches_when_asked
        self._said: list[Text] = []
        self._answered = {line.call_id for line in draft.lines if isinstance(line, DraftResult)}
        self._open: set[str] = set()
        self._held: list[Line] = []
        self._seen: list[Part] = []
        self._thought: str | None = None
        self._blocks: list[Json] = []

    def write(self) -> list[Json]:
        if self._draft.system:
            self._written.append({"role": "system", "content": self._write_system()})
        for line in self._draft.lines:
            self._add(line)
        while self._held or self._seen:
            self._open.clear()
            self._go_on()
        self._end_assistant()
        return self._written

    def _add(self, line: Line) -> None:
        if self._open and self._must_wait(line):
            self._held.append(line)
            return
        match line:
            case DraftText("assistant", parts):
                self._speak()
                self._said.extend(self._draft.spoken(parts, "assistant"))
            case DraftText("system", parts):
                self._end_assistant()
                self._written.append({"role": "system", "content": self._write_parts(self._draft.spoken(parts, "system"))})
            case DraftText(role, parts):
                self._end_assistant()
                self._written.append({"role": role, "content": self._write_parts(parts)})
            case DraftCall():
                self._call(line)
            case DraftResult():
                self._return(line)
            case DraftReasoning(envelope):
                self._remember(envelope)

    def _must_wait(self, line: Line) -> bool:
        """While results are missing, other roles wait, and so does the assistant once results have begun."""
        if isinstance(line, DraftResult):
            return line.call_id not in self._open
        return self._assistant is None or (isinstance(line, DraftText) and line.role != "assistant")

    def _go_on(self) -> None:
        """After the last result, write the images among the results, then what waited."""
        if self._seen:
            # Tool messages hold only text, so images follow as the user's.
            self._written.append({"role": "user", "content": self._write_parts(tuple(self._seen))})
            self._seen = []
        held, self._held = self._held, []
        for line in held:
            self._add(line)

    def _speak(self) -> JsonObject:
        if self._assistant is None:
            self._assistant = {"role": "assistant", "content": None}
            if self._thought:
                self._assistant["reasoning_content"], self._thought = self._thought, None
            self._written.append(self._assistant)
        if self._blocks:
            self._assistant["thinking_blocks"] = [*as_list(self._assistant.get("thinking_blocks")), *self._blocks]
            self._blocks = []
        return self._assistant

    def _end_assistant(self) -> None:
        if self._assistant is not None and self._said:
            self._assistant["content"] = self._write_parts(tuple(part for part in self._said if part.text))
        self._assistant, self._said, self._thought, self._blocks = None, [], None, []

    def _remember(self, envelope: str) -> None:
        state = unwrap(envelope, self._context.target.name, REASONING_CONTENT)
        if state is None:
            self._draft.drop("reasoning of earlier answers")
        elif blocks := as_list(state.get("thinking_blocks")):
            self._blocks.extend(blocks)
        elif self._context.quirks.replays_reasoning:
            text = state.get("reasoning_content")
            self._thought = text if isinstance(text, str) else None

    def _call(self, called: DraftCall) -> None:
        calls = self._speak().setdefault("tool_calls", [])
        assert isinstance(calls, list)
        function: JsonObject = {"name": called.name, "arguments": called.arguments}
        call: JsonObject = {"id": called.call_id, "type": "function", "function": function}
        if self._context.quirks.signs_calls and not calls:
            call["extra_content"] = _SIGNATURE
        calls.append(marked(call, called.mark) if self._takes_marks else call)
        if called.call_id in self._answered:
            self._open.add(called.call_id)

    def _return(self, returned: DraftResult) -> None:
        self._end_assistant()
        pictures = [part for part in returned.parts if not isinstance(part, Text)]
        text = marked_error(texts(returned.parts), is_error=returned.is_error)
        if pictures:
            self._seen.append(Text(f"What the tool call {returned.call_id} returned:"))
            self._seen.extend(pictures)
            text = text or "See the next message."
        mark = returned.mark or last_mark(returned.parts)
        self._written.append({"role": "tool", "tool_call_id": returned.call_id, "content": self._mark_text(text, mark)})
        self._open.discard(returned.call_id)
        if not self._open:
            self._go_on()

    def _write_parts(self, parts: tuple[Part, ...]) -> Json:
        is_marked = self._takes_marks and last_mark(parts) is not None
        if not is_marked and all(isinstance(part, Text) for part in parts):
            return texts(parts)
        shown = (part for part in parts if not is_marked or not isinstance(part, Text) or part.text.strip())
        return [marked(_write_part(part), part.mark if is_marked else None) for part in shown]

    def _write_system(self) -> Json:
        """One text, or separate parts if marked: caches end with a part."""
        system, marks = self._draft.system, self._draft.system_marks
        if not self._takes_marks or not marks:
            return "\n\n".join(system)
        return [marked({"type": "text", "text": text}, marks.get(index)) for index, text in enumerate(system) if text.strip()]

    def _mark_text(self, text: str, mark: Mark) -> Json:
        return [marked({"type": "text", "text": text}, mark)] if self._takes_marks and mark and text.strip() else text


def _write_part(part: Part) -> JsonObject:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Image(url, detail):
            return {"type": "image_url", "image_url": {"url": url, **({"detail": detail} if detail else {})}}
        case File(name, data, _, _):
            if data is None:
                raise cannot_carry("a file by URL")
            return {"type": "file", "file": {**({"filename": name} if name else {}), "file_data": data}}


def mark_ends(messages: list[Json], mark: JsonObject) -> None:
    """Mark the system prompt, which other sessions share, and the last text to be answered."""
    first = as_object(messages[0]) if messages else {}
    if first.get("role") == "system":
        _mark_last_text(first, mark)
    heard = (message for message in map(as_object, reversed(messages)) if message.get("role") in ("user", "tool"))
    any(_mark_last_text(message, mark) for message in heard)


def _mark_last_text(message: JsonObject, mark: JsonObject) -> bool:
    """Mark the last text, if any. Blank ones are refused with a mark."""
    content = message.get("content")
    parts: list[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content)
    for index in reversed(range(len(parts))):
        part = as_object(parts[index])
        if as_text(part.get("text")).strip():
            parts[index] = marked(part, mark)
            message["content"] = parts
            return True
    return False
