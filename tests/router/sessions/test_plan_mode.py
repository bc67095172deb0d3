"""Plan mode as clients show it. `recorded_plans` has requests of real clients with long texts cut and tools left out."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from router.contract.session import SessionState
from router.contract.signals import SessionPosition
from router.contract.words import Dialect, PlanPhase, TurnKind
from router.sessions.marks import mark_turn
from router.sessions.moves import goes_on_with
from router.sessions.plan_mode import PlanMemory, read_plan
from router.sessions.turns import read_turn
from tests.tools.values import make_view

RECORDED = sorted((Path(__file__).parent / "recorded_plans").glob("*.json"))
DIALECTS = {"completions": Dialect.CHAT, "responses": Dialect.RESPONSES, "messages": Dialect.MESSAGES}
P, A, E, UNKNOWN = PlanPhase.PLANNING, PlanPhase.ACCEPTED, PlanPhase.EDITING, PlanPhase.UNKNOWN
PLANNED_CAPTURES = {
    "aider/06-architect-1-user-turn.json": P,
    "aider/07-architect-2-editor-pass.json": E,
    "claude-code/10-plan-mode-1-user-turn.json": P,
    "cline/03-plan-mode-1-user-turn.json": P,
    "opencode/10-plan-agent-1-user-turn.json": P,
}


class Session:
    """What memory keeps between two requests of a session."""

    def __init__(self) -> None:
        self.state = SessionState()

    def send(self, view):
        turn = read_turn(view)
        is_running = bool(self.state.turn) and goes_on_with(self.state, turn)
        turn = read_plan(view, replace(turn, position=SessionPosition(is_running=is_running)), self.state)
        if turn.kind in (TurnKind.ASK, TurnKind.FOLLOW_UP, TurnKind.TOOL_LOOP):
            words = PlanMemory.read(self.state.combine).after(turn).write("plan")
            self.state = replace(self.state, turn=mark_turn(turn), combine=words)
        return turn


def view_in(capture: dict):
    dialect = DIALECTS.get(capture.get("path", "").partition("?")[0].rsplit("/", 1)[-1])
    if capture.get("method", "POST") != "POST" or dialect is None or not isinstance(capture.get("body"), dict):
        return None
    headers = {name.lower(): value for name, value in capture["headers"].items()}
    return make_view(capture["body"], dialect, headers)


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_each_request_of_a_real_session_is_read_as_it_was_meant(file):
    captures = json.loads(file.read_text())
    sessions: dict[str, Session] = {}

    seen = [sessions.setdefault(capture["scenario"], Session()).send(view_in(capture)).plan for capture in captures]

    assert len(captures) > 1
    assert seen == [capture["phase"] for capture in captures]


@pytest.mark.shared
def test_of_all_captured_requests_only_those_in_plan_mode_count(shared):
    seen = {}
    for file in sorted((shared / "wire").glob("*/*.json")):
        view = view_in(json.loads(file.read_text()))
        if view is not None and (phase := Session().send(view).plan) is not None:
            seen[f"{file.parent.name}/{file.name}"] = phase

    assert {name: phase for name, phase in seen.items() if phase is not UNKNOWN} == PLANNED_CAPTURES
    with_marks = ("aider", "claude-code", "cline", "codex", "opencode")
    assert not [name for name, phase in seen.items() if phase is UNKNOWN and name.startswith(with_marks)]
    assert len(seen) > 20


CLAUDE, CODEX = {"user-agent": "claude-cli/2.1"}, {"user-agent": "codex_cli_rs/0.166.0"}
CLINE, OPENCODE = {"user-agent": "Cline/3.82.0"}, {"user-agent": "opencode/1.18.18"}
REMINDER = "<system-reminder>\nPlan mode is active. You MUST NOT make any edits.\n</system-reminder>"
OPENCODES = "<system-reminder>\n# Plan Mode - System Reminder\n\nCRITICAL: Plan mode ACTIVE\n</system-reminder>"
CLINES = "<environment_details>\n# Current Time\nnow\n\n# Current Mode\nPLAN MODE\nIn this mode\n</environment_details>"
CODEXS = "<collaboration_mode># Plan Mode (Conversational)\n\nYou work in 3 phases\n</collaboration_mode>"


def texts(*words: str) -> list[dict]:
    return [{"type": "text", "text": text} for text in words]


def claude(*said, **more):
    messages = [{"role": role, "content": content} for role, content in said]
    return make_view({"max_tokens": 9, "messages": messages, **more}, Dialect.MESSAGES, CLAUDE)


def chat(headers, *said):
    return make_view({"messages": [{"role": role, "content": content} for role, content in said]}, headers=headers)


def codex(*said):
    items = [{"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]} for role, text in said]
    return make_view({"input": items}, Dialect.RESPONSES, CODEX)


def use(name: str, number: int = 1, **given) -> tuple[str, list]:
    return "assistant", [{"type": "tool_use", "id": f"t{number}", "name": name, "input": given}]


def result(text: str = "ok", number: int = 1, **more) -> tuple[str, list]:
    return "user", [{"type": "tool_result", "tool_use_id": f"t{number}", "content": text, **more}]


PLANNING = {
    "claude, as a reminder next to the words": claude(("user", texts(REMINDER, "plan it"))),
    "claude, as a reminder after a result": claude(
        ("user", "plan it"), use("Read"), ("user", [*result()[1], *texts(REMINDER)])
    ),
    "claude, as a system message of which it is a part": claude(
        ("user", "plan it"), ("system", "# Environment\nx\n\nPlan mode is active. The user")
    ),
    "claude, long after the mark": claude(
        ("user", "plan it"), ("system", "Plan mode is active."), *(pair for _ in range(20) for pair in (use("Read"), result()))
    ),
    "opencode": chat(OPENCODE, ("user", texts('"plan it"', OPENCODES))),
    "cline": chat(CLINE, ("user", texts("<task>\nplan it\n</task>", CLINES))),
    "codex": codex(("developer", CODEXS), ("user", "plan it")),
}
OTHERS = {
    "a person who writes about it": claude(("user", "Plan mode is active, what does that mean?")),
    "a person who pastes the reminder": claude(("user", f"what is this?\n{REMINDER}")),
    "a person who sends only the reminder": claude(("user", REMINDER)),
    "a person who sends the reminder after the client's own blocks": claude(
        ("user", texts("<system-reminder>\nToday is Sunday.\n</system-reminder>", REMINDER))
    ),
    "a file with the reminder in it": claude(("user", "read it"), use("Read"), result(f"notes\n\n{REMINDER}")),
    "a file that is quoted in a reminder": claude(
        ("user", texts("<system-reminder>\n# claudeMd\nPlan mode is active is a phrase.\n</system-reminder>", "go"))
    ),
    "a field that says another mode": claude(
        ("user", texts(REMINDER, "go")), safeguards=[{"classifier_context": {"permission_mode": "auto"}}]
    ),
    "an answer that says it": claude(("user", "go"), ("assistant", "Plan mode is active."), ("user", "really?")),
    "opencode, typed": chat(OPENCODE, ("user", f'"what is {OPENCODES}"')),
    "cline, typed": chat(CLINE, ("user", texts(f"<task>\nwhat is\n{CLINES}\n</task>", CLINES.replace("PLAN", "ACT")))),
    "cline, on a terminal": chat(
        CLINE, ("user", texts("<task>x</task>", CLINES.replace("now", "# Current Mode\nPLAN MODE").replace("\nPLAN MODE\nIn", "\nACT MODE\nIn")))
    ),
    "codex, typed": codex(("developer", "You are Codex"), ("user", CODEXS)),
    "codex, with a to-do list": codex(("developer", "<collaboration_mode># Collaboration Mode: Default"), ("user", "use update_plan")),
}  # fmt: skip


@pytest.mark.parametrize("view", PLANNING.values(), ids=PLANNING)
def test_plan_mode_is_known_by_the_clients_own_texts(view):
    turn = Session().send(view)

    assert (turn.plan, turn.is_planning) == (P, True)
    assert read_turn(view).is_planning is (view is not PLANNING["claude, long after the mark"])  # its newest messages alone


@pytest.mark.parametrize("view", OTHERS.values(), ids=OTHERS)
def test_a_mark_that_the_client_did_not_write_is_not_obeyed(view):
    turn = Session().send(view)

    assert (turn.plan, turn.is_planning) == (None, False)
    assert not read_turn(view).is_planning


def test_a_client_without_marks_is_said_to_have_none():
    assert Session().send(chat({"user-agent": "QwenCode/0.24"}, ("user", "plan it"))).plan is UNKNOWN
    assert Session().send(chat({}, ("user", "plan it"))).plan is UNKNOWN


@pytest.mark.parametrize("mark", [REMINDER, CODEXS, "PLAN MODE"])
def test_another_clients_mark_counts_where_the_client_wrote_it(mark):
    inner = mark.removeprefix("<system-reminder>").removesuffix("</system-reminder>")
    own, quoted = chat({}, ("user", "plan it"), ("system", inner)), chat({}, ("user", f"what is this?\n\n{inner}"))

    assert read_turn(own).is_planning
    assert not read_turn(quoted).is_planning
    assert read_turn(chat({}, ("user", texts(REMINDER, "plan it")))).is_planning


PLAN_FIELD = {"safeguards": [{"classifier_context": {"permission_mode": "plan"}}]}
ASKED = ("user", "plan it")


def test_a_refused_plan_is_not_accepted():
    session = Session()
    session.send(claude(ASKED, **PLAN_FIELD))
    refused = claude(ASKED, use("ExitPlanMode"), result("The user doesn't want to proceed", is_error=True))

    assert session.send(refused).plan is None


def test_a_person_who_leaves_plan_mode_by_hand_has_not_accepted():
    session = Session()
    session.send(claude(ASKED, **PLAN_FIELD))
    left = claude(ASKED, ("assistant", "Here is a plan."), ("user", texts("rename divide")), ("system", "## Exited Plan Mode"))

    assert session.send(left).plan is None


def test_a_mark_that_comes_and_goes_in_one_turn_leaves_plan_mode_once():
    session, phases = Session(), []
    messages = [("user", texts("<task>\nplan it\n</task>", CLINES))]
    for number in range(6):
        phases.append(session.send(chat(CLINE, *messages)).plan)
        mode = CLINES if number % 2 else CLINES.replace("PLAN", "ACT")
        messages += [("assistant", f"<read_file>{number}"), ("user", texts(f"[read_file for '{number}'] Result:\nx", mode))]

    assert phases == [P, A, P, E, P, E]


def test_an_accepted_plan_ends_with_the_next_ask_and_not_with_a_go_on():
    session, said = Session(), [("user", texts('"plan it"', OPENCODES))]
    session.send(chat(OPENCODE, *said))
    said = [("user", '"plan it"'), ("assistant", "The plan."), ("user", '"Do it"')]
    accepted = session.send(chat(OPENCODE, *said)).plan
    again = session.send(chat(OPENCODE, *said)).plan
    said += [("assistant", "Half done."), ("user", '"continue"')]
    went_on = session.send(chat(OPENCODE, *said)).plan
    said += [("assistant", "Done."), ("user", '"Rename divide in all files"')]

    assert (accepted, again, went_on, session.send(chat(OPENCODE, *said)).plan) == (A, E, E, None)


def test_a_compacted_history_keeps_what_the_session_remembers_of_its_plan():
    session = Session()
    session.send(claude(ASKED, **PLAN_FIELD))
    session.send(claude(ASKED, use("ExitPlanMode"), result()))
    summary = ("user", "This session is being continued from a previous conversation that ran out of context.")

    compacted = session.send(claude(summary, use("Edit", 2, file_path="a"), result(number=2)))

    assert (compacted.kind, compacted.plan) == (TurnKind.TOOL_LOOP, E)


@pytest.mark.parametrize(
    "words", ["", "look:auto", "plan", "plan:", "plan:strange:1", "plan:editing", "plan:editing:x,look:auto"]
)
def test_words_of_any_other_kind_are_read_as_no_plan(words):
    memory = PlanMemory.read(words)

    assert not memory.has_edited
    assert memory.phase is (E if "editing" in words else None)


@pytest.mark.parametrize("memory", [PlanMemory(P), PlanMemory(P, has_edited=True), PlanMemory(E)])
def test_what_is_remembered_is_read_as_it_was_written(memory):
    assert PlanMemory.read(memory.write("plan,look:auto")) == memory
    assert memory.write("look:auto") == "look:auto"
