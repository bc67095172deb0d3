"""An afternoon of 300 turns, played against a router from one seed, and what it was worth by plain arithmetic over its rows."""

import asyncio
import json
import random

from tests.tools.http import call, request_bytes
from tests.tools.waiting import until

CONFIG = """
ledger: {path: test.db}
models: {auto: auto, slow: slow-deep, local: local-fast}
tiers:
  fast:
    targets:
      - name: quick-fast
        adapter: simulated
        price: {input: 0.5, output: 2, cached_input: 0.05}
        typical: {ttft_seconds: 0.2, tokens_per_second: 1000, prefill_tokens_per_second: 60000}
        options:
          {ttft_seconds: 0.004, tokens_per_second: 50000, answer_tokens: 40, faults: [{kind: rate_limit, when: XX-BUSY, retry_after_seconds: 0}]}
      - name: local-fast
        adapter: simulated
        typical: {ttft_seconds: 5, tokens_per_second: 100, prefill_tokens_per_second: 6000}
        options: {ttft_seconds: 0.004, tokens_per_second: 50000, answer_tokens: 40, faults: [{kind: rate_limit, when: XX-BUSY, retry_after_seconds: 0}]}
  deep:
    targets:
      - name: good-deep
        adapter: simulated
        price: {input: 5, output: 25, cached_input: 0.5}
        window_tokens: 400000
        typical: {ttft_seconds: 0.9, tokens_per_second: 65, prefill_tokens_per_second: 60000}
        options: {ttft_seconds: 0.04, tokens_per_second: 1000, answer_tokens: 40}
      - name: slow-deep
        adapter: simulated
        price: {input: 5, output: 25, cached_input: 0.5}
        options: {ttft_seconds: 0.01, tokens_per_second: 20, answer_tokens: 400}
"""
SESSIONS, TURNS = 60, 5
QUICK = ("rename usr to user in models.py", "fix the typo in the footer", "bump the timeout to 60", "make the heading bold")
LONG = ("migrate the whole codebase to async, with tests", "build me a todo app with login, tests and docs")
WRONG = ("that is wrong, it still fails with the same message", "no, that broke the login page. undo it")
OFTEN = {"quick": 30, "work": 12, "long": 12, "struggle": 8, "wrong": 8, "wish": 7}
KINDS = OFTEN | {"spill": 2, "job": 4, "refused": 4, "left": 4, "local": 3}
RED = "FAILED tests/test_cart.py::test_total - AssertionError: assert 3 == 4\n1 failed, 41 passed in 2.3s"
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("shell", "edit_file")]


class Session:
    """One person's conversation, a turn at a time."""

    def __init__(self, port: int, name: str, chance: random.Random) -> None:
        self._port, self._name, self._chance = port, name, chance
        self._said: list[dict] = []
        self.asked: list[str] = []
        """The requests of quick turns."""
        self.jobs: list[str] = []

    async def play(self, kinds: list[str]) -> None:
        for kind in kinds:
            await getattr(self, f"_play_{kind}", self._play_quick)()

    async def _ask(self, words: str, model: str = "auto", status: int = 200, **headers: str) -> str:
        self._said.append({"role": "user", "content": words})
        return await self._send(model, status, **headers)

    async def _send(self, model: str = "auto", status: int = 200, **headers: str) -> str:
        body = {"model": model, "messages": self._said, "tools": TOOLS}
        named = {"x-tandem-session": self._name, **{name.replace("_", "-"): value for name, value in headers.items()}}
        reply = await call(self._port, "/v1/chat/completions", body, named)
        assert reply.status == status, reply
        return reply.headers["x-tandem-request-id"]

    async def _use_tools(self, calls: int, tool: str, result: str) -> None:
        for number in range(calls):
            made = f"c{len(self._said)}"
            path = json.dumps({"path": f"src/{number}.py", "cmd": "pytest"})
            function = {"name": tool, "arguments": path}
            self._said += [
                {"role": "assistant", "content": None, "tool_calls": [{"id": made, "type": "function", "function": function}]},
                {"role": "tool", "tool_call_id": made, "content": result},
            ]
            await self._send()
        self._said.append({"role": "assistant", "content": "Done."})

    async def _play_quick(self) -> None:
        self.asked.append(await self._ask(self._chance.choice(QUICK)))
        await self._use_tools(0, "shell", "")

    async def _play_work(self) -> None:
        await self._ask(self._chance.choice(QUICK))
        await self._use_tools(self._chance.randint(1, 3), "shell", "ok")

    async def _play_struggle(self) -> None:
        await self._ask(self._chance.choice(QUICK))
        await self._use_tools(5, self._chance.choice(("shell", "edit_file")), RED)

    async def _play_long(self) -> None:
        await self._ask(self._chance.choice(LONG))
        await self._use_tools(self._chance.randint(0, 2), "edit_file", "ok")

    async def _play_wrong(self) -> None:
        await self._ask(self._chance.choice(WRONG))
        await self._use_tools(0, "shell", "")

    async def _play_wish(self) -> None:
        await self._ask(self._chance.choice(QUICK), x_tandem_tier="deep")
        await self._use_tools(1, "shell", "ok")

    async def _play_spill(self) -> None:
        await self._ask("rename XX-BUSY to calm")
        self._said[-1]["content"] = "rename it to calm"
        await self._use_tools(0, "shell", "")

    async def _play_local(self) -> None:
        await self._ask(self._chance.choice(QUICK), "local")
        await self._use_tools(1, "shell", "ok")

    async def _play_refused(self) -> None:
        await self._ask("hello", "nobody-has-this", 404)
        del self._said[-1]

    async def _play_job(self) -> None:
        body = {"model": "auto", "input": self._chance.choice(QUICK + LONG), "background": True}
        began = await call(self._port, "/v1/responses", body)
        self.jobs.append(began.headers["x-tandem-request-id"])

        async def is_over() -> bool:
            return (await call(self._port, f"/v1/responses/{began.json['id']}")).json["status"] == "completed"

        await until(is_over)

    async def _play_left(self) -> None:
        """Hang up in the middle of an answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        body = {"model": "slow", "stream": True, "messages": [*self._said, {"role": "user", "content": "explain this"}]}
        writer.write(request_bytes("/v1/chat/completions", body, {"x-tandem-session": self._name}))
        await reader.readuntil(b'"delta"')
        writer.close()


async def play(port: int, seed: int = 7) -> list[Session]:
    chance, sessions = random.Random(seed), list[Session]()
    some = asyncio.Semaphore(12)

    async def play_one(session: Session, kinds: list[str]) -> None:
        async with some:
            await session.play(kinds)

    plans = []
    for number in range(SESSIONS):
        sessions.append(Session(port, f"session-{number}", random.Random(chance.random())))
        plans.append(play_one(sessions[-1], chance.choices([*KINDS], [*KINDS.values()], k=TURNS)))
    await asyncio.gather(*plans)
    return sessions


def add_by_hand(rows: list[dict], marks: dict[str, str]) -> dict:
    """What a person would get with a pencil: the figures of `/tandem/savings` from the ledger's rows, as record 105 defines them."""
    open_turns, turns = dict[str, dict](), list[dict]()
    for row in rows:
        decision, asked = json.loads(row["decision"] or "{}"), row["turn_kind"] in ("ask", "follow_up")
        has_worked = row["outcome"] in ("SERVED", "CUT_SHORT", "ABANDONED", "INTERRUPTED")
        turn = open_turns.get(row["session"]) if has_worked and row["turn_kind"] == "tool_loop" else None
        if turn is None:
            turn = {
                "ask": row,
                "decision": decision,
                "fast": [],
                "rest": [],
                "is_persons": has_worked and asked,
                "redone": None,
            }
            turns.append(turn)
            if turn["is_persons"] and row["session"]:
                if (before := open_turns.get(row["session"])) is not None:
                    _hear_next(before, decision, marks)
                if marks.get(row["id"]) == "deep" and row["tier"] == "fast":
                    turn["redone"] = "marked"
                open_turns[row["session"]] = turn
        elif row["tier"] == "deep" and _may_be_redone(turn, marks) and "fast" == _decided(turn) != decision["tier"]:
            asked_for, was_asked_for = decision["decided_by"] == "override", turn["decision"]["decided_by"] == "override"
            turn["redone"] = "moved_up" if not asked_for else None if was_asked_for else "asked_for_deep"
        if row["tier"] is not None and row["outcome"] != "REFUSED":
            turn["fast" if row["tier"] == "fast" and has_worked else "rest"].append(row)
    return _add_turns(turns)


def _decided(turn: dict) -> str:
    return turn["decision"].get("tier") or turn["ask"]["tier"]


def _may_be_redone(turn: dict, marks: dict[str, str]) -> bool:
    return turn["ask"]["tier"] == "fast" and turn["redone"] is None and turn["ask"]["id"] not in marks


def _hear_next(before: dict, decision: dict, marks: dict[str, str]) -> None:
    """What a turn says of the one before it."""
    if not _may_be_redone(before, marks):
        return
    if before["decision"]["decided_by"] != "override" == decision["decided_by"] and decision["tier"] == "deep":
        before["redone"] = "asked_for_deep"
    elif decision.get("asked_again"):
        before["redone"] = "asked_again"


def _add_turns(turns: list[dict]) -> dict:
    spent_seconds = spent_usd = saved_seconds = saved_usd = redone_seconds = redone_usd = 0.0
    for turn in turns:
        seconds, usd = (sum(row[name] or 0.0 for row in turn["fast"]) for name in ("duration_ms", "cost_usd"))
        seconds /= 1000
        spent_seconds += seconds + sum(row["duration_ms"] for row in turn["rest"]) / 1000
        spent_usd += usd + sum(row["cost_usd"] or 0.0 for row in turn["rest"])
        fast, deep, score = turn["decision"].get("fast"), turn["decision"].get("deep"), turn["ask"]["score"] or 0.0
        if turn["redone"]:
            redone_seconds, redone_usd = redone_seconds + seconds, redone_usd + usd
            saved_seconds, saved_usd = saved_seconds - seconds, saved_usd - usd
        elif turn["fast"] and fast and deep and turn["ask"]["turn_kind"] != "tool_loop":  # its turn is not in the ledger
            saved_seconds += seconds * (deep[2] + deep[3] * score) / (fast[2] + fast[3] * score) - seconds
            if fast[6] and deep[6]:
                saved_usd += usd * (deep[4] + deep[5] * score) / (fast[4] + fast[5] * score) - usd
    persons = [turn for turn in turns if turn["is_persons"]]
    calls = [row for turn in turns for row in (*turn["fast"], *turn["rest"])]
    redone = [turn["redone"] for turn in turns if turn["redone"]]
    return {
        "turns": len(persons),
        "fast_turns": sum(turn["ask"]["tier"] == "fast" for turn in persons),
        "calls": len(calls),
        "spent": {"seconds": round(spent_seconds, 3), "usd": round(spent_usd, 8)},
        "all_deep": {"seconds": round(spent_seconds + saved_seconds, 3), "usd": round(spent_usd + saved_usd, 8)},
        "saved": {"seconds": round(saved_seconds, 3), "usd": round(saved_usd, 8)},
        "redone": {
            "turns": len(redone),
            "seconds": round(redone_seconds, 3),
            "usd": round(redone_usd, 8),
            **{sign: redone.count(sign) for sign in ("marked", "moved_up", "asked_for_deep", "asked_again")},
        },
        "left_out": {
            "unpriced": sum(row["cost_usd"] is None and row["output_tokens"] is not None for row in calls),
            "refused": sum(row["outcome"] == "REFUSED" for turn in turns for row in [turn["ask"]]),
        },
    }
