"""Ledgers of drawn rows that are added, deleted, changed and summed up in any order."""

import contextlib
import json
import random

from router.contract.caller import Caller
from router.contract.entry import COLUMNS
from router.contract.words import Outcome, Tier
from router.past.worth import fold
from router.stores.recent import row_of
from router.stores.sqlite import hours, turn_worth
from router.stores.sqlite.files import connect, create_private
from router.stores.sqlite.forget import forget_caller
from router.stores.sqlite.hours import HOUR, settle_next
from router.stores.sqlite.marks import judge_turn
from router.stores.sqlite.migrate import prepare
from router.stores.sqlite.past import SqliteEntryReader
from router.stores.sqlite.rows import transaction
from router.stores.sqlite.schemas import LEDGER
from router.stores.sqlite.turn_worth import settle_turns
from tests.tools.kept import make_entry

CALLERS, TARGETS = ("ada", "bob", "cleo"), ("spark", "flint", "sage")
BEGAN = 1_763_000_000.0
NAMES = (*COLUMNS, "decision", "attempts", "prompt_text", "answer_text")
INSERT = f"INSERT INTO entries ({', '.join(NAMES)}) VALUES ({', '.join('?' * len(NAMES))})"


class Drawn:
    """A ledger of drawn rows, which are added, deleted and changed in any order."""

    def __init__(self, path, seed: int, monkeypatch=None) -> None:
        if monkeypatch is not None:  # so that hours are done in parts, and some are not done again
            for name, few in (("_SETTLED_ROWS", 4), ("_LATE_ROWS", 40), ("_REBUILT_ROWS", 10)):
                monkeypatch.setattr(hours, name, few)
            for name, few in (("_FOLDED_ROWS", 7), ("_FOLDED_SESSIONS", 2), ("_SUMMED_TURNS", 5)):
                monkeypatch.setattr(turn_worth, name, few)
        self.path, self.chance, self.number = path, random.Random(seed), 0
        create_private(path)
        prepare(path, LEDGER)
        self.now = BEGAN

    def run(self, statement: str, *values: object) -> None:
        with contextlib.closing(connect(self.path)) as database:
            database.execute(statement, values)

    def add(self, rows: int) -> None:
        chance, made = self.chance, []
        for _ in range(rows):
            self.number += 1
            self.now += chance.expovariate(1 / 300)
            outcome = chance.choice([*Outcome, *[Outcome.SERVED] * 10])
            tier = chance.choice(("fast", "deep", None))
            made.append(make_entry(
                f"req_{self.number}", Caller(chance.choice(CALLERS)), at=self.now - chance.choice((0.0, 0.0, 9_000.0)),
                outcome=str(outcome), tier=tier, target=chance.choice(TARGETS) if tier else None, client=chance.choice(("codex", None)),
                turn_kind=chance.choice(("ask", "tool_loop", "side", None)), session=chance.choice((*"abc", None, f"s{self.number // 40}", f"s{self.number // 40}")), decision=self.draw_decision(),
                score=chance.random(),
                cost_usd=chance.choice((None, chance.random() / 100)), list_usd=chance.choice((None, 0.01)),
                ttft_ms=chance.choice((None, chance.random() * 1_000)), tokens_per_second=chance.choice((None, chance.random() * 100)),
                duration_ms=chance.random() * 10_000, output_tokens=chance.choice((None, 7)), key=chance.choice((None, "k1")),
            ))  # fmt: skip
        with contextlib.closing(connect(self.path)) as database, transaction(database):
            database.executemany(INSERT, [row_of(entry) for entry in made])

    def draw_decision(self) -> str | None:
        """What fast and deep were expected to take and cost, what was said, and what it was about: each or none of it."""
        chance = self.chance
        sides = {
            tier: [f"{tier}-{chance.randrange(2)}", 0.0, 1 + chance.random() * 9, chance.random(), chance.choice((0.0, 0.01)), 0.01, True, [1.0, 1.0]]
            for tier in Tier
        }  # fmt: skip
        lean = {"log_odds": 1.0, "because": "looks quick", "idea": chance.choice(("css", "typo", ""))}
        kept = {
            "v": 3, "tier": chance.choice(tuple(Tier)), "decided_by": chance.choice(("estimate", "estimate", "override")),
            "leans": [["learned", lean]] * chance.randrange(2), "asked_again": chance.random() < 0.3,
            **(sides if chance.random() < 0.8 else {}),
        }  # fmt: skip
        return json.dumps(kept) if chance.random() < 0.9 else None

    def settle(self, most: int) -> None:
        with contextlib.closing(connect(self.path)) as database:
            database.execute("PRAGMA synchronous = OFF")
            for _ in range(most):
                if not (settle_next(database, self.now) or settle_turns(database, fold, self.now)):
                    break

    def change_something(self) -> None:
        chance = self.chance
        kind = chance.choice(("add", "add", "settle", "settle", "forget", "expire", "change", "newest", "mark", "mark"))
        if kind == "add":
            self.add(chance.randrange(1, 200))
        elif kind == "settle":
            self.settle(chance.randrange(1, 60))
        elif kind == "forget":
            forget_caller(self.path, Caller(chance.choice(CALLERS)))
        elif kind == "expire":
            self.run("DELETE FROM entries WHERE at < ?", BEGAN + (self.now - BEGAN) * chance.random() / 4)
        elif kind == "mark":
            names = [name for (name,) in self.scan("SELECT id FROM entries ORDER BY sequence")]
            for name in chance.sample(names, min(5, len(names))):
                turn = SqliteEntryReader(self.path).find_turn(name)
                if turn is not None:
                    judge_turn(self.path, turn, chance.choice(tuple(Tier)))
        elif kind == "change":
            self.run(
                "UPDATE entries SET at = at + ?, caller = ? WHERE sequence % 7 = ?",
                chance.choice((-8_000, 0, 8_000)), chance.choice(CALLERS), chance.randrange(7),
            )  # fmt: skip
        else:
            self.run("DELETE FROM entries WHERE sequence > (SELECT max(sequence) FROM entries) - 3")

    def scan(self, statement: str, **values: object) -> list[tuple]:
        with contextlib.closing(connect(self.path)) as database:
            return database.execute(statement, values).fetchall()

    def moments(self) -> list[float]:
        return [0.0, BEGAN - BEGAN % HOUR, *(self.chance.uniform(BEGAN, self.now) for _ in range(3)), self.now + 60]
