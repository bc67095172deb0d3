"""A running `tandem serve` as the system sees it, and what it holds by its own count."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from tests.tools.waiting import until


class Process:
    """A router in a folder of its own."""

    def __init__(self, folder: Path, child: asyncio.subprocess.Process, port: int) -> None:
        self.folder, self.child, self.port = folder, child, port

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.child.pid}/fd"))

    def memory_mb(self) -> float:
        pages = int(Path(f"/proc/{self.child.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def census(self) -> dict:
        file = self.folder / "census.json"
        file.unlink(missing_ok=True)
        self.child.send_signal(signal.SIGUSR1)
        await until(file.exists, 60)
        return json.loads(file.read_text())

    async def stop(self) -> int:
        """Its exit status, after it has finished and written what it had to."""
        self.child.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.child.wait(), 60)


@contextlib.asynccontextmanager
async def serving(folder: Path, config: str, *, traces: bool = False) -> AsyncIterator[Process]:
    """A router with a config, on a port that the system picked. It ends with the block."""
    (folder / "config.yaml").write_text(config)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SOAK_CENSUS": str(folder / "census.json")}
    environment["XDG_STATE_HOME"] = str(folder)
    if traces:
        environment["SOAK_TRACE"] = "1"
    with (folder / "log").open("wb") as log:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.soak.router", "serve", "--port", "0", "--log", "json"),
            cwd=folder,
            env=environment,
            stderr=log,
        )
    try:
        await until(lambda: b"server.started" in (folder / "log").read_bytes() or child.returncode is not None, 60)
        found = re.search(rb"http://127\.0\.0\.1:(\d+)", (folder / "log").read_bytes())
        assert found is not None, (folder / "log").read_text()
        yield Process(folder, child, int(found[1]))
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
