"""A router of several workers, as `tandem serve --workers` starts it."""

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from tests.tools.http import call
from tests.tools.waiting import until


class WorkerGroup:
    """The parent's process, and what it has started."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path, port: int) -> None:
        self.process, self.folder, self.port = process, folder, port

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def children(self, name: str) -> list[int]:
        """The processes of the parent whose command has a word in it."""
        found = []
        for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                if name in Path(f"/proc/{pid}/cmdline").read_text():
                    found.append(int(pid))
        return found

    @property
    def workers(self) -> list[int]:
        return self.children("router.cli")

    async def ready(self) -> dict:
        return (await call(self.port, "/readyz", method="GET")).json

    async def await_successor(self, dead: int) -> None:
        """Return when another worker serves in the place of one that ended."""
        await until(lambda: self.log.count("worker.started") > self.log.count("worker.ended") + 1 and dead not in self.workers)


@contextlib.asynccontextmanager
async def group_of(
    count: int, folder: Path, config: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> AsyncIterator[WorkerGroup]:
    """Workers that all serve. Whatever of them is left at the end is killed."""
    (folder / "config.yaml").write_text(config)
    asked = ["serve", "--config", str(folder / "config.yaml"), "--port", "0", "--workers", str(count), *arguments]
    variables = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), **(environment or {})}
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "router.cli", *asked, stderr=log, env=variables)
    group = WorkerGroup(process, folder, 0)
    try:
        await until(lambda: "server.started" in group.log or process.returncode is not None, 60)
        assert process.returncode is None, group.log
        group.port = int(re.search(r"http://127\.0\.0\.1:(\d+)", group.log)[1])
        yield group
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def is_alive(pid: int) -> bool:
    """Whether a process runs: one that has ended and that nobody has asked for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
