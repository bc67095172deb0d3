"""A ledger of a million rows: how long each question of the page and the commands takes, and a batch of the writer.

`python -m tests.bench.large_ledger` writes such a file in a new folder, adds up its hours and turns as a router does in the
background, and prints the figures, in CPU time. `--file` keeps it for another run, `--rows` makes it smaller. The
same rows come out of the same seed.
"""

import argparse
import contextlib
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from policies.learned import LearnedConfig
from router.contract.past import TurnsAsked
from router.contract.stores import AskedTooMuch
from router.contract.words import Outcome, Tier, TurnKind
from router.page.queries import SPANS
from router.past.savings import add_up, add_up_groups
from router.past.worth import fold
from router.stores.sqlite.files import connect, create_private
from router.stores.sqlite.hours import settle_next
from router.stores.sqlite.migrate import prepare
from router.stores.sqlite.past import SqliteEntryReader
from router.stores.sqlite.schemas import LEDGER
from router.stores.sqlite.turn_worth import settle_turns

DAYS = 31
WEIGHTS = LearnedConfig().fingerprint
DECISION = (
    '{"v":3,"tier":"fast","targets":["fast-1","fast-2"],"decided_by":"estimate","prompt_tokens":8123,"usd_per_second":0.0208,'
    '"leans":[' + ",".join('["learned",{"log_odds":-0.61,"because":"words of a quick edit"}]' for _ in range(6)) + "],"
    f'"spill":["deep-1","deep-2"],"config":"0f1e2d3c4b5a","weights":"{WEIGHTS}",'
    '"fast":["fast-1",0.0,2.1,9.4,0.002,0.011,true,[1.0,1.0],2.4],"deep":["deep-1",0.0,14.2,61.0,0.03,0.19,true,[1.0,1.0],17.9],'
    '"redo":[0.05,0.6,14.0,60.0,0.03,0.19,0]}'
)
ATTEMPTS = '[{"target":"fast-1","status":200,"error":null,"seconds":2.4,"usage":{"input_tokens":8123,"output_tokens":412}}]'
COLUMNS = (
    "id, at, caller, session, turn_kind, client, dialect, model, streaming, outcome, status, error, tier, target, because, score,"
    " decision, attempts, overhead_ms, ttft_ms, duration_ms, tokens_per_second, input_tokens, cached_tokens, output_tokens,"
    " reasoning_tokens, tokens_estimated, cost_usd, prompt_text, answer_text, key"
)
INSERT = f"INSERT INTO entries ({COLUMNS}) VALUES ({', '.join('?' * 31)})"
KINDS = (TurnKind.ASK, *(TurnKind.TOOL_LOOP,) * 6, TurnKind.FOLLOW_UP, *(TurnKind.TOOL_LOOP,) * 6, TurnKind.SIDE)


def make_rows(count: int, now: float, seed: int = 7, callers: int = 10) -> Iterator[tuple[object, ...]]:
    """Calls over a month: sessions of 10 to 200 calls, a few at a time, of several callers on four targets."""
    chance = random.Random(seed)
    open_sessions: list[list[object]] = []
    for number in range(count):
        if len(open_sessions) < 8:
            name = f"{chance.getrandbits(128):032x}"
            open_sessions.append([name, f"caller-{chance.randrange(callers)}", chance.randint(10, 200), 0])
        session = chance.choice(open_sessions)
        place = int(str(session[3]))
        session[3] = place + 1
        if place + 1 >= int(str(session[2])):
            open_sessions.remove(session)
        tier = Tier.DEEP if chance.random() < 0.3 else Tier.FAST
        outcome = Outcome.SERVED if chance.random() > 0.002 else Outcome.FAILED
        ttft = chance.lognormvariate(6.0 if tier is Tier.FAST else 7.5, 0.5)
        at = now - DAYS * 86_400.0 * (1 - number / count)
        yield (
            f"req_{number:027x}", at, session[1], session[0], str(KINDS[place % len(KINDS)]),
            ("codex", "claude-code", "opencode")[number % 3], "responses", "auto", 1, str(outcome), 200, None, str(tier),
            f"{tier}-{1 + chance.randrange(2)}", "looks like a quick edit (0.12); fast is sooner done", chance.random(),
            DECISION, ATTEMPTS, 0.4, round(ttft, 2), round(ttft * 3, 2), round(chance.uniform(40, 900), 1), 8_123, 7_000, 412, 0, 0,
            0.0021, None, None, None,
        )  # fmt: skip


def write_large(path: Path, rows: int) -> Path:
    create_private(path)
    prepare(path, LEDGER)
    with contextlib.closing(connect(path)) as database:
        database.execute("PRAGMA synchronous = OFF")
        database.execute("BEGIN")
        database.executemany(INSERT, make_rows(rows, time.time()))
        database.execute("COMMIT")
    return path


def list_questions(path: Path) -> dict[str, Callable[[], object]]:
    """Every question of the page, and those that go the longest way."""
    reader, now = SqliteEntryReader(path), time.time()
    session = reader.read_session_page(TurnsAsked(limit=1)).sessions[0].session
    asked = {
        "the newest": TurnsAsked(),
        "200 of ten years": TurnsAsked(limit=200, since=now - 3_650 * 86_400.0),
        "from the middle": TurnsAsked(before=500_000),
        "of a tier": TurnsAsked(tier="deep"),
        "of a target": TurnsAsked(target="deep-1"),
        "that failed": TurnsAsked(outcome="FAILED"),
        "of one client": TurnsAsked(client="codex"),
        "of a client that nobody has": TurnsAsked(client="none"),
        "of a caller": TurnsAsked(caller="caller-3"),
        "of a session": TurnsAsked(session=session),
    }
    questions: dict[str, Callable[[], object]] = {
        f"turns {name}": partial(reader.read_turns, one) for name, one in asked.items()
    }
    questions |= {
        "sessions": lambda: reader.read_session_page(TurnsAsked(limit=50)),
        "sessions from the middle": lambda: reader.read_session_page(TurnsAsked(before=500_000)),
        "sessions of a caller": lambda: reader.read_session_page(TurnsAsked(caller="caller-3")),
        "one session": lambda: reader.read_session(session, None, 1_000),
    }
    day = now - 86_400.0
    questions |= {
        "tandem log": lambda: reader.read_newest(0.0, 20),
        "tandem log --since 1m": lambda: reader.read_newest(now - 60.0, 20),
        "tandem stats --since 1d": lambda: (reader.read_sums(day), add_up(reader, day)),
        "tandem stats": lambda: (reader.read_sums(0.0), add_up(reader, 0.0)),
    }
    for name, since in {"all": 0.0, "30d": now - 30 * 86_400.0, "7d": now - 7 * 86_400.0, "1d": day}.items():
        questions[f"savings {name}"] = partial(add_up_groups, reader, since)
        questions[f"savings {name} of a caller"] = partial(add_up_groups, reader, since, "caller-3")
    for span, (step, steps) in {**SPANS, "90d": (86_400.0, 90)}.items():
        questions[f"series {span}"] = partial(reader.read_series, now, step, steps, None)
        questions[f"series {span} of a caller"] = partial(reader.read_series, now, step, steps, "caller-3")
    return questions


def time_question(question: Callable[[], object]) -> tuple[float, float, str]:
    """The first time and the median of five, in ms."""
    took, note = [], ""
    for _ in range(5):
        began = time.process_time()
        try:
            question()
        except AskedTooMuch:
            note = "given up"
        took.append((time.process_time() - began) * 1_000)
    return took[0], statistics.median(took), note


def settle_all(path: Path) -> float:
    """Add up all hours and turns. Returns the seconds of CPU."""
    began = time.process_time()
    with contextlib.closing(connect(path)) as database:
        while settle_next(database, time.time()) or settle_turns(database, fold, time.time()):
            pass
    return time.process_time() - began


def time_writes(path: Path, batches: int = 200, rows: int = 50) -> float:
    """The median ms of a batch, written as the router writes."""
    made = list(make_rows(batches * rows, time.time(), seed=8))
    took: list[float] = []
    with contextlib.closing(connect(path)) as database:
        database.execute("PRAGMA synchronous = FULL")
        for batch in range(batches):
            part = [(f"{row[0]}_w", *row[1:]) for row in made[batch * rows : (batch + 1) * rows]]
            began = time.perf_counter()
            database.execute("BEGIN IMMEDIATE")
            database.executemany(INSERT, part)
            database.execute("COMMIT")
            took.append((time.perf_counter() - began) * 1_000)
    return statistics.median(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path, help="use this file, or write it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = options.file or Path(folder, "written.db")
        if not file.exists():
            write_large(file, options.rows)
        path = Path(shutil.copy(file, Path(folder, "large.db")))
        print(f"added up its hours and turns in {settle_all(path):.1f} s of CPU; {path.stat().st_size / 1e6:.0f} MB")
        for name, question in list_questions(path).items():
            first, median, note = time_question(question)
            print(f"{name:34} first {first:7.1f} ms  median {median:7.1f} ms  {note}")
        print(f"a batch of 50 rows: {time_writes(path):.2f} ms")


if __name__ == "__main__":
    main()
