"""`python -m tests.soak`: half an hour at 50 requests a second, with something that breaks every two seconds.

Prints memory and counts each minute. Fails if the router crashes, if anything is left over when the callers are gone, if memory
grows after the warm-up, or if an admitted request does not have exactly one entry in the ledger.
"""

import argparse
import asyncio
import collections
import contextlib
import math
import os
import sys
import tempfile
from pathlib import Path

from router.contract.keys import make_key
from tests.soak.callers import Account, Callers
from tests.soak.process import Process, serving
from tests.soak.troubles import FaultyUpstream, Troubles
from tests.tools.running import read_entries
from tests.tools.waiting import later, until

CONNECTIONS = 24
WARM_MINUTES = 10
MAY_GROW_MB, MAY_WARM_MB = 5.0, 12.0
"""After ten minutes every table is full. In a shorter run they still fill, so only a leak of several KB a request is seen."""
LOWS_SECONDS = 20.0
SETTLE_SECONDS = 90.0
LOOK_SECONDS = 2.0
KEY_FILE = """
callers:
  soak: {{may_force: [fast, deep], keys: [{{id: "{soak.id}", sha256: "{soak_digest}", created: 2026-01-01T00:00:00Z}}]}}
  boss: {{admin: true, keys: [{{id: "{boss.id}", sha256: "{boss_digest}", created: 2026-01-01T00:00:00Z}}]}}
"""
CONFIG = """
ledger: {{path: test.db}}
keys: {{file: keys.yaml}}
models: {{"soak-*": auto, hasty: hasty}}
tiers:
  fast:
    targets:
      - {{name: quick, adapter: openai_http, dialect: chat, base_url: "{url}", model: m, window_tokens: 400000}}
      - {{name: hasty, adapter: openai_http, dialect: chat, base_url: "{url}", model: m, window_tokens: 400000,
         timeouts: {{first_byte_seconds: 4, stall_seconds: 4}}}}
      - {{name: third, adapter: anthropic_http, dialect: messages, base_url: "{bare}", model: m, window_tokens: 400000}}
  deep:
    targets:
      - {{name: thorough, adapter: openai_http, dialect: responses, base_url: "{url}", model: m, window_tokens: 400000}}
limits: {{write_idle_timeout_seconds: 5}}
"""


def write_config(folder: Path, url: str) -> tuple[str, str, str]:
    """The config, the callers' key and an admin's."""
    soak, boss = make_key(), make_key()
    keys = folder / "keys.yaml"
    keys.touch(mode=0o600)
    keys.write_text(KEY_FILE.format(soak=soak, soak_digest=soak.digest.hex(), boss=boss, boss_digest=boss.digest.hex()))
    return CONFIG.format(url=url, bare=url.removesuffix("/v1")), soak.text, boss.text


async def soak(folder: Path, minutes: float, per_second: float, *, traces: bool) -> list[str]:
    """What was wrong."""
    upstream = FaultyUpstream()
    await upstream.start()
    config, key, admin_key = write_config(folder, upstream.base_url)
    account = Account()
    async with serving(folder, config, traces=traces) as tandem:
        callers = Callers(tandem.port, key, account, per_second)
        await callers.ask_once()
        files = tandem.open_files()
        troubles = Troubles(tandem.port, callers, upstream, admin_key)
        work = [later(callers.run(CONNECTIONS)), later(troubles.run())]
        memory = await _watch(tandem, work, account, minutes)
        callers.is_over = True
        _, late = await asyncio.wait(work, timeout=SETTLE_SECONDS)  # each caller hears the end of what it asked
        for task in late:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        await upstream.stop()
        faults = ["the callers did not end"] if late else []
        faults += [*_unexpected(account), *_growth(memory, minutes), *await _leftovers(tandem, files)]
        status = await tandem.stop()
        if status != 0:
            faults.append(f"the router ended with status {status}")
        log = tandem.log.read_text()
    faults += [f"the log holds {word!r}" for word in ("fault.caught", "Traceback", "ledger.failed", key) if word in log]
    return faults + _check_entries(folder / "test.db", account)


async def _watch(tandem: Process, work: list["asyncio.Future[None]"], account: Account, minutes: float) -> list[float]:
    """The least memory in the last part of each minute: what a large body takes for a moment is not growth."""
    memory: list[float] = []
    loop = asyncio.get_running_loop()
    began = loop.time()
    _say("minute   memory   handles   asked   sessions   wrong   load")
    while (left := began + minutes * 60 - loop.time()) > 0:
        least, minute_ends = math.inf, loop.time() + min(left, 60)
        while loop.time() < minute_ends and not any(task.done() for task in work):
            await asyncio.wait(work, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if tandem.child.returncode is None and minute_ends - loop.time() < LOWS_SECONDS:
                least = min(least, tandem.memory_mb())
        if tandem.child.returncode is not None or any(task.done() for task in work):
            for task in work:
                if task.done() and (error := task.exception()) is not None:
                    account.wrong.append(repr(error))
            break
        memory.append(least)
        asked, load = len(account.answered) + len(account.left), os.getloadavg()[0]
        _say(
            f"{(loop.time() - began) / 60:6.1f} {memory[-1]:7.1f}M {tandem.open_files():9} {asked:7} {account.sessions:10} "
            f"{len(account.wrong):7} {load:6.1f}"
        )
    return memory


def _unexpected(account: Account) -> list[str]:
    for what, count in sorted(account.seen.items()):
        _say(f"  {count:7}  {what}")
    return account.wrong[:20]


def _growth(memory: list[float], minutes: float) -> list[str]:
    """Whether memory grew after the warm-up of ten minutes; in a run shorter than twenty, whether it grew too much in half."""
    if len(memory) < 2:
        return ["too short a run to say anything of memory"]
    is_warm = len(memory) >= 2 * WARM_MINUTES
    warm, limit = (WARM_MINUTES, MAY_GROW_MB) if is_warm else (len(memory) // 2, MAY_WARM_MB)
    grown = memory[-1] - memory[warm - 1]
    _say(f"memory grew by {grown:.1f} MB from minute {warm} to minute {minutes:g}; {limit:g} MB are allowed")
    return [f"memory grew by {grown:.1f} MB"] if grown > limit else []


async def _leftovers(tandem: Process, files: int) -> list[str]:
    """What is still there once every caller and every target is gone."""
    with contextlib.suppress(AssertionError):
        await until(lambda: tandem.open_files() <= files + 2, SETTLE_SECONDS)  # the log's reader and the control plane may load
    census, faults = await tandem.census(), []
    _say(f"tables: {census['tables']}")
    for line in census.get("lines", ()):
        _say(line)
    if (left := tandem.open_files()) > files + 2:
        faults.append(f"{left} handles are open, and {files} were at the start")
    if census["running"]:
        faults.append(f"{census['running']} requests still run")
    own = {"learn", "watch keys", "watch secrets", "watch troubles"}
    if others := [name for name in census["tasks"] if name not in own and not name.startswith("Task-")]:
        faults.append(f"tasks are left over: {others[:5]} and {len(others)} in all")
    _say(f"tasks at the end: {census['tasks']}")
    return faults


def _check_entries(path: Path, account: Account) -> list[str]:
    """Exactly one entry for each admitted request, with an outcome that fits what its caller saw."""
    rows = read_entries(path)
    entries = {row["id"]: row for row in rows}
    models = collections.Counter(row["model"] for row in rows)
    faults = [f"{name} has {models[name]} entries" for name in account.left if models[name] != 1]
    faults += [f"{request_id} has no entry" for request_id in account.answered if request_id not in entries]
    strange = [row for row in rows if row["id"] not in account.answered and row["model"] not in account.left]
    _say(f"{len(rows)} entries for {len(account.answered)} requests with an answer and {len(account.left)} whose callers left")
    if strange:
        faults.append(f"{len(strange)} entries are of no request: {[(row['model'], row['outcome']) for row in strange[:5]]}")
    for request_id, status in account.answered.items():
        row = entries.get(request_id)
        if row is not None and row["status"] != status:
            faults.append(f"{request_id} was answered with {status}, and recorded with {row['status']}")
    return faults[:20]


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--per-second", type=float, default=50.0)
    parser.add_argument("--trace", action="store_true", help="report which lines allocated what is in use (slow)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        faults = asyncio.run(soak(Path(folder), arguments.minutes, arguments.per_second, traces=arguments.trace))
    for fault in faults:
        _say(f"FAULT  {fault}")
    _say("failed" if faults else "passed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
