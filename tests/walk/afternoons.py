"""Generated sessions: turns of many kinds, sent as clients send them and decided by a house with its memory.

Everything comes from one seed. Each decision carries what a person would know, to check its reason.
"""

import json
import random
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from msgspec import structs
from msgspec.structs import replace

from router.config.load import check_config
from router.contract.decision import ESTIMATE
from router.contract.entry import Attempt
from router.contract.errors import TandemError
from router.contract.exchange import Arrival, Deadline, Exchange, Link, Observers, Part
from router.contract.facts import AttemptEnded, Decided, Ending, FirstByte, Settled
from router.contract.target import TargetStatus
from router.contract.words import Dialect, Operation, Outcome
from router.dispatch.live.statistics import LiveStatistics
from router.house import House
from router.past.replay import NoCounter
from router.sessions.memory import SessionMemory
from router.stores.memory.entries import NoSessions
from router.telemetry.log import report_defect
from router.wiring.build import build_house, known_names
from tests.conftest import SIMULATED
from tests.tools.sessions import Clock
from tests.walk.reasons import Shown

LOG = "\n".join(f"2026-03-11 02:14:{n:02} worker-3 picked job {n}" for n in range(30))
RED = "FAILED tests/test_cart.py::test_total - AssertionError: assert 3 == 4\n1 failed, 41 passed in 2.3s"
MESSAGES: Mapping[str, tuple[str, ...]] = {
    "edit": (
        "rename usr to user in models.py", "fix the typo in the footer", "bump the timeout to 60", "make the heading bold",
        "use const instead of let here", "remove the unused import in app.ts", "set the log level to warning",
        "add a blank line after the imports", "mach den knopf grün", "改成中文标题", "change the port to 8080 in config.yaml",
        "in user.ts line 12: replace == by ===\nin cart.ts: drop the console.log",
    ),
    "task": (
        "move all our cron jobs to a proper job queue with retries and a small admin page",
        "write integration tests for the whole signup flow", "replace the ORM with plain SQL everywhere",
        "build me a todo app with login", "split this 4000 line file into modules", "upgrade to react 19",
        "our p99 went from 80 ms to 900 ms since Monday, get to the bottom of it", "把整个前端从 Vue 2 升级到 Vue 3",
        "migriere das projekt von jest auf vitest und bring alle tests zum laufen", "add SSO with SAML, including the settings page",
        "implement undo and redo across the whole editor",
    ),
    "question": (
        "what does this decorator do?", "why is there a + in front of this regex group", "is this O(n) or O(n^2)?",
        "where is the config loaded?", "which of the two is faster?", "was macht diese funktion?", "how many callers does it have?",
        "what is the difference between these two branches?", "does this handle unicode?",
    ),
    "plan": (
        "how would you restructure the config system? plan only, no code", "plan the migration from flask to fastapi",
        "make a plan for splitting the monolith, don't write code yet", "what would be your approach to caching here? just a plan",
    ),
    "review": (
        "review this PR", "do a security audit of this repository", "security scan the repo pls",
        "review the complete diff of this branch against main for correctness", "have a look at parse() and tell me if it is safe",
    ),
    "approval": ("yes", "yes please", "looks good, do it", "sounds good, go ahead", "do it", "ok, start with it", "perfekt, leg los", "the second option"),
    "onward": ("go on", "continue", "same for the others", "now the frontend", "weiter", "next", "and the tests too", "fix it"),
    "correction": (
        "still red", "no, it still fails with the same message", "that broke the login page", "you forgot the second file",
        "nope. same error", "wrong file. undo that and do what I asked", "I've reverted your change, it broke the build",
        "geht immer noch nicht", "it doesn't work", "tests are red now",
    ),
    "remark": ("nice, works now", "ok cool", "step 3 is done on my side", "Its working!!!", "I'll be back in an hour", "that was quick"),
    "greeting": ("hi", "hello there", "good morning", "thanks!", "thank you so much", "👍", "danke", "你好"),
    "command": ("git pull", "git status", "run the tests", "npm run build", "show me the failing line", "commit this"),
    "log question": (f"how many warnings are in there\n\n{LOG}", f"{LOG}\n\nwhat time did it start?"),
    "red log": (RED, f"here is what I get:\n{RED}", "ci failed, please fix\n" + RED),
    "news": ("the ci is red again, look at the logs", "a customer says that the export is slow", "we have a new logo"),
}  # fmt: skip
FIRST_KINDS = ("edit", "task", "question", "plan", "review", "greeting", "log question", "command")
LATER_KINDS = (*MESSAGES, "again", "edit", "edit", "approval", "onward", "correction", "remark")
NOTIFICATION = "<task-notification>\n<status>completed</status>\nFull transcript available at /tmp/x.md\n</task-notification>"
PLANNING = "<system-reminder>Plan mode is active</system-reminder>"
SIZES = {
    "edit": (1, 4, 0.5),
    "command": (0, 90, 0.5),
    "task": (8, 30, 0.4),
    "approval": (0, 26, 0.4),
    "onward": (0, 20, 0.4),
    "correction": (1, 12, 0.4),
}
"""Least and most calls of a turn, and the share of edits. Other kinds have up to six looks."""
CONFIG = SIMULATED.replace("accepts: [text, tools, custom", "window_tokens: 24000\n        accepts: [text, tools, custom", 1)


class Waits(LiveStatistics):
    """Live figures with a waiting time that the test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: dict[str, float] = {}
        self.closed: dict[str, float] = {}

    def statuses(self, targets, now: float) -> Mapping[str, TargetStatus]:
        return {
            name: structs.replace(status, wait_seconds=self.waits.get(name, 0.0), closed_seconds=self.closed.get(name, 0.0))
            for name, status in super().statuses(targets, now).items()
        }


class Afternoons:
    """A house with simulated tiers that calls nobody, and a memory on the test's clock."""

    def __init__(self, folder: Path) -> None:
        built = build_house(check_config(CONFIG, "test", folder, known_names()), with_ledger=False).house
        self.clock, self.live = Clock(), Waits()
        self.memory = SessionMemory(NoSessions(), self.clock)
        self.house = House(built.plan, replace(built.state, memory=self.memory, live=self.live, counter=NoCounter()))
        self.observers = Observers((Link(Part.SESSIONS, self.memory),), report_defect)

    async def serve(self, arrival: Arrival, spills: bool = False, fails: bool = False) -> tuple[Decided, str | None]:
        """Decide a request, note its end (as decided, by the other tier, or unserved), and return the serving tier."""
        decided = await self.house.decide(arrival)
        decision, targets = decided.decision, self.house.plan.targets
        name = decision.spill[0] if spills and decision.spill else decision.targets[0]
        exchange = Exchange(arrival, 0.0, Deadline(600.0), self.observers)
        exchange.note(decided)
        if fails:
            exchange.note(Settled(1.0, Ending(Outcome.FAILED, 502)))
            return decided, None
        target = targets[name]
        exchange.note(FirstByte(target))
        exchange.note(AttemptEnded(1.0, target, Attempt(name, 200, None, 1.0), None, None, None))
        exchange.note(Settled(1.0, Ending(Outcome.SERVED, 200)))
        return decided, str(target.tier)

    async def play(self, number: int, seed: int) -> AsyncIterator[Shown]:
        chosen = random.Random(f"{seed}/{number}")
        session = Session(f"{seed}-{number}", chosen)
        last, was_served = frozenset[str](), True
        words = ""
        for turn in range(chosen.randint(2, 5)):
            meant = chosen.choice(LATER_KINDS if turn else FIRST_KINDS)
            words = words if meant == "again" else chosen.choice(MESSAGES[meant])
            self._change_weather(chosen)
            spills, fails = chosen.random() < 0.04, chosen.random() < 0.04
            session.say(words, is_planning=chosen.random() < 0.04)
            tiers: set[str] = set()
            began = frozenset[str]()
            for is_first in session.work(meant if meant != "again" else "edit", fails=fails):
                try:
                    decided, tier = await self.serve(session.request(), spills, fails)
                except TandemError:
                    break  # nothing can serve this, so there is no reason to check
                yield (
                    show(decided, words, meant, last, was_served, began, session.name)
                    if is_first
                    else show(decided, words, "", last, was_served, began, session.name)
                )
                tiers = {str(decided.decision.tier), tier} if tier else set()
                began = began or frozenset(tiers)
            last, was_served = frozenset(tiers), bool(tiers)
            self.clock.now += chosen.choice((20.0, 90.0, 200.0, 900.0))

    def _change_weather(self, chosen: random.Random) -> None:
        """Mostly nobody waits; now and then a tier has a queue or asks for a pause."""
        self.live.waits, self.live.closed = {}, {}
        target, dice = chosen.choice(("simulated-fast", "simulated-deep")), chosen.random()
        if dice < 0.10:
            self.live.waits[target] = chosen.choice((2.0, 8.0, 30.0, 120.0))
        elif dice < 0.13:
            self.live.closed[target] = 42.0


def show(
    decided: Decided, words: str, meant: str, last: frozenset[str], was_served: bool, began: frozenset[str], session: str
) -> Shown:
    decision = decided.decision
    return Shown(
        words=words,
        tier=str(decision.tier),
        because=decision.because,
        kind=decision.turn.kind,
        meant=meant,
        last_tiers=last,
        was_last_served=was_served,
        began_on=began,
        cached_tokens=decision.turn.position.warm.get(decision.targets[0], 0),
        session=session,
        score=decision.score if decision.decided_by == ESTIMATE else None,
    )


class Session:
    """A conversation as Codex, Claude Code, another agent or a client without session names sends it."""

    def __init__(self, name: str, chosen: random.Random) -> None:
        self.name, self._chosen = name, chosen
        self._client = chosen.choice(("codex", "claude-code", "agent", "nameless"))
        self.name = f"({self._client} {name})"
        self._items: list[dict] = []
        self._made = 0
        self._effort = "high" if chosen.random() < 0.05 else None
        # A sentence is about eleven tokens. Most prompts are short; some have caches worth keeping, or fill fast's window.
        self._lead = f"You are agent {name}. " + "This is how the work is done in this project. " * chosen.choice(
            (0, 0, 0, 1_500, 4_200)
        )

    def say(self, words: str, *, is_planning: bool) -> None:
        self._add("user", f"{words}\n{PLANNING}" if is_planning and self._client != "claude-code" else words, is_planning)

    def work(self, meant: str, *, fails: bool):
        """The first and last requests of a turn, and whether each is the first."""
        yield True
        if fails:
            return
        least, most, share = SIZES.get(meant, (0, 6, 0.0))
        calls, is_red = self._chosen.randint(least, most), self._chosen.random() < 0.15
        for number in range(calls):
            self._call(is_edit=self._chosen.random() < share, is_red=is_red)
            if number in (0, calls - 1):
                yield False
        if calls and self._client == "claude-code" and self._chosen.random() < 0.05:
            self._add("user", NOTIFICATION)
            yield False
        self._add("assistant", "Done.")

    def request(self) -> Arrival:
        if self._client == "codex":
            headers = {"user-agent": "codex_exec/0.166.0", "thread-id": self.name}
            body = {
                "model": "auto",
                "instructions": self._lead,
                "input": self._items,
                "tools": [{"type": "function", "name": "shell"}],
            }
            if self._effort:
                body["reasoning"] = {"effort": self._effort}
            return _arrive(Dialect.RESPONSES, headers, body)
        if self._client == "claude-code":
            headers = {"user-agent": "claude-cli/2.1.325 (external, cli)", "x-claude-code-session-id": self.name}
            body = {
                "model": "auto",
                "max_tokens": 9,
                "system": self._lead,
                "messages": self._items,
                "tools": [{"name": "Bash", "input_schema": {}}],
            }
            return _arrive(Dialect.MESSAGES, headers, body)
        headers = {"x-tandem-session": self.name} if self._client == "agent" else {}
        tools = [{"type": "function", "function": {"name": "shell", "parameters": {}}}]
        messages = [{"role": "system", "content": self._lead}, *self._items]
        return _arrive(Dialect.CHAT, headers, {"model": "auto", "messages": messages, "tools": tools})

    def _add(self, role: str, text: str, is_planning: bool = False) -> None:
        if self._client == "codex":
            kind = "input_text" if role == "user" else "output_text"
            self._items.append({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
        elif self._client == "claude-code":
            lead = [{"type": "text", "text": PLANNING}] if is_planning else []
            self._items.append({"role": role, "content": [*lead, {"type": "text", "text": text}]})
        else:
            self._items.append({"role": role, "content": text})

    def _call(self, *, is_edit: bool, is_red: bool) -> None:
        self._made += 1
        call_id, name = f"c{self._made}{self.name}", "edit_file" if is_edit else "shell"
        arguments = {"path": f"src/{self._chosen.randint(1, 9)}.py", "cmd": f"pytest -k {self._made}"}
        result = RED if is_red and not is_edit else "ok"
        if self._client == "codex":
            self._items.append({"type": "function_call", "call_id": call_id, "name": name, "arguments": json.dumps(arguments)})
            self._items.append({"type": "function_call_output", "call_id": call_id, "output": result})
        elif self._client == "claude-code":
            self._items.append(
                {"role": "assistant", "content": [{"type": "tool_use", "id": call_id, "name": name, "input": arguments}]}
            )
            self._items.append(
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": result}]}
            )
        else:
            made = {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            self._items.append({"role": "assistant", "content": None, "tool_calls": [made]})
            self._items.append({"role": "tool", "tool_call_id": call_id, "content": result})


def _arrive(dialect: Dialect, headers: dict[str, str], body: dict) -> Arrival:
    return Arrival("req_afternoon", dialect, Operation.CREATE, headers, json.dumps(body, ensure_ascii=False).encode())
