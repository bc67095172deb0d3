"""Upgrades from older releases, killed at any moment on a disk with too little room: every file is old or new, with all its rows.

`python -m tests.faults.test_upgrades 40` makes forty upgrades from each release, on a small file system of their own
(Linux with user namespaces; elsewhere without a limit). It needs git with its history.
"""

import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from router.stores.sqlite import hours, turn_worth
from router.stores.sqlite.migrate import foresee
from router.stores.sqlite.schemas import JOBS, LEDGER, RESPONSES, find_copies, version_of
from tests.tools.releases import CONFIG, ROOT, Router, check_out, running

RELEASES = ("b864c390",)
FILES = {"tandem.db": LEDGER, "responses.db": RESPONSES, "jobs.db": JOBS}
MANY = {"tandem.db": ("entries", 600), "responses.db": ("transcripts", 600), "jobs.db": ("jobs", 300)}
"""How often the rows of a table are copied, for files of some megabytes."""
LEFT_OUT = {"upkeep", "places", "settled", "folded", "summed_spans"} | hours.DERIVED | turn_worth.DERIVED
"""Tables that were dropped, or that follow from others."""
KEPT_OF_MARKS = ("request_id", "at", "should_be")
"""Everything else of `misjudged` went with `places`: both held hashes of words."""
KILLS = 1
SMALL_DISK = ("unshare", "--map-root-user", "--mount")
TICKING = """
import os, random, shutil, signal, sqlite3, threading
from types import SimpleNamespace
ticks, moment, delay, lies = 0, *map(float, os.environ["MOMENT"].split())
counted = os.open(os.environ["COUNTED"], os.O_RDWR | os.O_CREAT)
if lies:
    shutil.disk_usage = lambda _: SimpleNamespace(free=1 << 40)
def tick(*_):
    global ticks
    ticks += 1
    os.pwrite(counted, b"%012d" % ticks, 0)
    if ticks == moment:
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start() if delay else os.kill(os.getpid(), signal.SIGKILL)
class Ticking(sqlite3.Connection):
    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.set_progress_handler(tick, 5_000)
    def execute(self, *args):
        tick()
        return super().execute(*args)
    def backup(self, target):
        super().backup(target, pages=64, progress=tick)
def ticking(work):
    def ticked(*args, **more):
        tick()
        done = work(*args, **more)
        tick()
        return done
    return ticked
connect = sqlite3.connect
sqlite3.connect = lambda *args, **more: connect(*args, **{"factory": Ticking, **more})
os.link, os.unlink = ticking(os.link), ticking(os.unlink)
"""
"""Counts the steps of all databases, so that a kill hits a step and not a time."""


def hash_rows(file: Path, columns: dict[str, list[str]]) -> dict[str, str]:
    """A hash for each table, of the given columns."""
    with contextlib.closing(sqlite3.connect(file)) as database:
        found = {}
        for table, names in columns.items():
            digest = hashlib.sha256()
            for row in database.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY 1, 2"):
                digest.update(repr(row).encode())
            found[table] = digest.hexdigest()
        return found


def columns_of(file: Path) -> dict[str, list[str]]:
    with contextlib.closing(sqlite3.connect(file)) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'").fetchall()
        named = {table: f"SELECT name FROM pragma_table_info('{table}')" for (table,) in tables if table not in LEFT_OUT}
        found = {table: [name for (name,) in database.execute(query)] for table, query in named.items()}
    return {table: [name for name in names if table != "misjudged" or name in KEPT_OF_MARKS] for table, names in found.items()}


def copy_rows(file: Path, table: str, count: int) -> None:
    with contextlib.closing(sqlite3.connect(file)) as database:
        names = [name for name in columns_of(file)[table] if name != "sequence"]
        values = ", ".join(f"{name} || '-' || n" if name == "id" else name for name in names)
        database.execute(
            f"WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < {count})"
            f" INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM {table}, counted"
        )
        database.commit()


def ask_for_work(router: Router) -> str:
    """Fill every file that the release has. Returns the id of a stored response."""
    for _ in range(4):
        assert router.ask("/v1/chat/completions", {"model": "auto", "messages": [{"role": "user", "content": "hi"}]})[0] == 200
        status, kept = router.ask("/v1/responses", {"model": "auto", "input": "keep this", "store": True})
        assert status == 200
    status, job = router.ask("/v1/responses", {"model": "auto", "input": "later", "store": True, "background": True})
    while status == 200 and job["status"] in ("queued", "in_progress"):
        status, job = router.ask(f"/v1/responses/{job['id']}")
    return kept["id"]


class Past:
    """An older release, and the files that it wrote."""

    def __init__(self, commit: str, place: Path) -> None:
        self.checkout, self.folder = place / commit, place / f"{commit}-files"
        self.checkout.mkdir(parents=True)
        self.folder.mkdir()
        check_out(commit, self.checkout)
        (self.folder / "config.yaml").write_text(CONFIG)
        with running(self.folder, self.checkout) as router:
            assert router.wait_for_start(), router.said
            self.response = ask_for_work(router)
            assert router.stop() == 0
        shutil.rmtree(self.folder / "state", ignore_errors=True)
        for name, (table, count) in MANY.items():
            if (self.folder / name).exists():
                copy_rows(self.folder / name, table, count)

    def write(self) -> str:
        return json.dumps([str(self.checkout), str(self.folder), self.response])


class Trial:
    """One upgrade, in a folder that may be a disk of its own."""

    def __init__(self, written: str, folder: Path, *, is_small: bool) -> None:
        checkout, files, self.response = json.loads(written)
        self.checkout, self.folder, self.is_small = Path(checkout), folder, is_small
        if is_small:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g", "none", folder], check=True)
        shutil.copytree(files, folder, dirs_exist_ok=True)
        self.names = [name for name in FILES if (folder / name).exists()]
        self.columns = {name: columns_of(folder / name) for name in self.names}
        self.rows = {name: hash_rows(folder / name, self.columns[name]) for name in self.names}
        self.before = {name: version_of(folder / name) for name in self.names}
        coming = (foresee(folder / name, FILES[name]) for name in self.names)
        self.needed = sum(found[1] for found in coming if found is not None)
        self.counted = Path(f"{folder}.ticks")

    def leave_room(self, free: int | None) -> None:
        if self.is_small:
            size = shutil.disk_usage(self.folder).used + free if free is not None else 1 << 30
            subprocess.run(["mount", "-o", f"remount,size={size // 4096 * 4096}", self.folder], check=True)

    def upgrade(self, moment: int, delay: float, *, lies: bool) -> str:
        """Start the new release, which is killed at a moment or after its start. Returns what became of it."""
        settings = {"MOMENT": f"{moment} {delay} {int(lies)}", "COUNTED": str(self.counted), "SQLITE_TMPDIR": str(self.folder)}
        with running(self.folder, code=TICKING, **settings) as router:
            if router.wait_for_start():
                return "served"
            code = router.process.wait()
            assert code in (-signal.SIGKILL, 2), f"{code}: {router.said}"
            return "killed" if code < 0 else "refused"

    def check_files(self) -> dict[str, int]:
        """The versions: each is the old one or the new one, with all rows. At most one copy, and a whole one."""
        for name in self.names:
            file = self.folder / name
            assert hash_rows(file, self.columns[name]) == self.rows[name], name
            copies = find_copies(file)
            assert len(copies) <= 1, copies
            for copy in copies:
                assert hash_rows(copy, self.columns[name]) == self.rows[name], copy
        found = {name: version_of_open(self.folder / name) for name in self.names}
        assert all(found[name] in (self.before[name], FILES[name].newest) for name in self.names), (self.before, found)
        return found

    def serve(self, checkout: Path = ROOT) -> None:
        with running(self.folder, checkout) as router:
            assert router.wait_for_start(), router.said
            assert router.ask(f"/v1/responses/{self.response}")[0] == 200, router.said
            router.stop(signal.SIGKILL)

    def run(self, seed: int, ticks: int) -> str:
        chance = random.Random(seed)
        share, moment = chance.uniform(0.05, 1.2), chance.randint(1, ticks)
        delay, lies = chance.choice((0, chance.uniform(0, 0.01))), chance.random() < 0.5
        self.leave_room(int(share * self.needed))
        ended = self.upgrade(moment, delay, lies=lies)
        self.leave_room(None)
        found = self.check_files()
        if found == self.before:
            self.serve(self.checkout)
        self.serve()
        assert self.check_files() == {name: FILES[name].newest for name in self.names}
        for name in self.names:
            changed = self.before[name] != FILES[name].newest
            assert len(find_copies(self.folder / name)) == changed, name
        assert not list(self.folder.glob("*.part*"))
        new = ", ".join(name for name in self.names if found[name] != self.before[name])
        told = "free space misread" if lies else "free space known"
        return f"{share:.0%} of the room ({told}), step {moment}: {ended}; new at once: {new or 'none'}"


def version_of_open(file: Path) -> int:
    """With what is still in the log."""
    with contextlib.closing(sqlite3.connect(file)) as database:
        return database.execute("PRAGMA user_version").fetchone()[0]


def can_limit_disks() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        command = [*SMALL_DISK, "mount", "-t", "tmpfs", "-o", "size=1m", "none", folder]
        return shutil.which(SMALL_DISK[0]) is not None and subprocess.run(command, capture_output=True).returncode == 0


def run_trial(past: Past, seed: int, ticks: int, *, is_small: bool) -> str:
    """In a process of its own, whose disk ends with it. Returns its report."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*(SMALL_DISK if is_small else ()), sys.executable, "-m", "tests.faults.test_upgrades", "trial"]
        command += [past.write(), f"{folder}/files", str(seed), str(ticks), str(int(is_small))]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, f"seed {seed}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
        return done.stdout.strip()


def count_ticks(past: Past) -> int:
    """The steps of an upgrade that nothing disturbs."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "files").mkdir()
        trial = Trial(past.write(), Path(folder) / "files", is_small=False)
        assert trial.upgrade(0, 0, lies=False) == "served"
        return int(trial.counted.read_text())


@pytest.fixture(scope="module", params=RELEASES)
def past(request, tmp_path_factory) -> Past:
    return Past(request.param, tmp_path_factory.mktemp("past"))


@pytest.mark.starts
def test_an_upgrade_that_is_killed_on_a_full_disk_leaves_old_or_new_files_with_all_rows(past):
    ticks, is_small = count_ticks(past), can_limit_disks()
    reports = [run_trial(past, seed, ticks, is_small=is_small) for seed in range(KILLS)]

    assert all(reports), reports


@pytest.mark.starts
def test_the_documented_way_back_leads_back_to_the_older_release(past, tmp_path):
    shutil.copytree(past.folder, folder := tmp_path / "files")
    with running(folder) as router:
        assert router.wait_for_start(), router.said
        migrated = re.findall(r'"file":"([\w.]+)"[^\n]*"copy":"([\w.-]+)"[^\n]*store\.migrated', router.said)
        status, newer = router.ask("/v1/responses", {"model": "auto", "input": "lost on the way back", "store": True})
        router.stop()
    assert status == 200
    assert migrated == [
        (copy.name.partition(".before-")[0], copy.name) for name in FILES for copy in find_copies(folder / name)
    ]
    assert migrated
    page = (ROOT / "docs/run/service.md").read_text()
    commands = re.search(r"## Go back\n.*?```sh\n(.*?)```", page, re.DOTALL)[1]
    assert "file=tandem.db copy=tandem.db.before-14" in commands
    for file, copy in migrated:
        with running(folder, past.checkout) as router:
            assert not router.wait_for_start()
            known = re.search(rf"{re.escape(file)} was written by a newer Tandem \(schema \d+ > (\d+)\)", router.said)
        assert copy == f"{file}.before-{int(known[1]) + 1}"
        used = commands.replace("file=tandem.db copy=tandem.db.before-14", f"file={file} copy={copy}")
        subprocess.run(["sh", "-e", "-c", used], cwd=folder, check=True)

    with running(folder, past.checkout) as router:
        assert router.wait_for_start(), router.said
        assert router.ask(f"/v1/responses/{past.response}")[0] == 200
        is_kept = "responses.db" not in dict(migrated)
        assert router.ask(f"/v1/responses/{newer['id']}")[0] == (200 if is_kept else 404)
        router.stop()
    with running(folder) as router:
        assert router.wait_for_start(), router.said
    assert {file for file, _ in migrated} == {path.name.removesuffix(".newer") for path in folder.glob("*.newer")}


def main(count: int) -> int:
    is_small = can_limit_disks()
    if not is_small:
        print("no file system of our own can be mounted here: the room is not limited")
    failed = 0
    with tempfile.TemporaryDirectory() as place:
        for commit in RELEASES:
            past = Past(commit, Path(place))
            ticks = count_ticks(past)
            for seed in range(count):
                try:
                    print(f"{commit} {seed}: {run_trial(past, seed, ticks, is_small=is_small)}", flush=True)
                except AssertionError as error:
                    failed += 1
                    print(f"{commit} {seed}: FAILED {error}", flush=True)
    print(f"{count * len(RELEASES)} upgrades, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["trial"]:
        os.mkdir(sys.argv[3])
        print(Trial(sys.argv[2], Path(sys.argv[3]), is_small=sys.argv[6] == "1").run(int(sys.argv[4]), int(sys.argv[5])))
    else:
        sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 40))
