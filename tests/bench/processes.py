"""The benchmark's processes: an upstream and routers, each pinned to a core, with CPU time and memory that can be read."""

import json
import os
import platform
import subprocess
import sys
import sysconfig
import time
import urllib.request
from pathlib import Path

from requirements.choose_python import SETTINGS, is_guided

HERE = Path(__file__).resolve().parent
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
TICKS = os.sysconf("SC_CLK_TCK")
CONFIG = """
ledger: {{path: bench.db}}
tiers:
  fast: {{targets: [{{name: quick, adapter: openai_http, dialect: chat, base_url: "{url}", model: m}}]}}
  deep: {{targets: [{{name: thorough, adapter: openai_http, dialect: chat, base_url: "{url}", model: m, window_tokens: 400000}}]}}
"""
RESPONSES_CONFIG = CONFIG.replace("dialect: chat", "dialect: responses")


def pinned(core: int):
    return (lambda: os.sched_setaffinity(0, {core})) if hasattr(os, "sched_setaffinity") else None


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class DidNotStart(Exception):
    """A router that ended, or announced no address. The message is what it said last."""


class Process:
    """A child whose CPU time and memory can be read."""

    def __init__(self, command: list[str], core: int, **more) -> None:
        self.child = subprocess.Popen(command, preexec_fn=pinned(core), text=True, **more)
        self.reader: subprocess.Popen[bytes] | None = None
        """Reads its log, if anything does: it would stop when the pipe is full."""

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def cpu_nanoseconds(self) -> int:
        """The same from the process's own clock, which has no ticks. Threads count, those that ended too."""
        # What clock_getcpuclockid(3) answers on Linux; Python does not wrap it.
        return time.clock_gettime_ns((~self.child.pid << 3) | 2)

    def resident_mb(self) -> float:
        return int(Path(f"/proc/{self.child.pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024

    def stop(self) -> None:
        with self.child:  # closes its pipes, too
            self.child.terminate()
            self.child.wait(10)
        if self.reader is not None:
            self.reader.wait(10)


def start_upstream() -> tuple[Process, int]:
    upstream = Process([sys.executable, str(HERE / "upstream.py"), "0"], CORES[0], stdout=subprocess.PIPE)
    return upstream, int(upstream.child.stdout.readline())


def start_tandem(
    upstream_port: int,
    folder: Path,
    *flags: str,
    config: str = CONFIG,
    before: tuple[str, ...] = (),
    headers: dict[str, str] | None = None,
    **more,
) -> tuple[Process, int, float]:
    """A fresh Tandem, its port, and the seconds to its first answer.

    `flags` are the interpreter's, `before` is what runs the interpreter, `headers` are the first request's, and `more` is
    `Popen`'s.
    """
    (folder / "config.yaml").write_text(config.format(url=f"http://127.0.0.1:{upstream_port}/v1"))
    command = [
        *before,
        sys.executable,
        *flags,
        "-m",
        "router.cli",
        "serve",
        "--config",
        str(folder / "config.yaml"),
        "--port",
        "0",
        "--log",
        "json",
    ]
    began = time.monotonic()
    process = Process(command, CORES[-1], stderr=subprocess.PIPE, **more)
    try:
        port = read_port(process)
        ask_once(port, headers or {})
    except BaseException:
        process.stop()
        raise
    took = time.monotonic() - began
    process.reader = subprocess.Popen(["cat"], stdin=process.child.stderr, stdout=subprocess.DEVNULL)
    return process, port, took


def read_port(process: Process) -> int:
    line = process.child.stderr.readline()
    try:
        return int(json.loads(line)["url"].rsplit(":", 1)[1])
    except (ValueError, KeyError, TypeError):
        process.child.terminate()
        said = (line + process.child.stderr.read()).strip()
        raise DidNotStart(said.splitlines()[-1] if said else "it said nothing") from None


def ask_once(port: int, headers: dict[str, str]) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        b'{"model":"auto","messages":[{"role":"user","content":"fix the typo"}]}',
        {"content-type": "application/json", **headers},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        answer.read()


def interpreter() -> str:
    """Which Python this is, and how it was built: one with profile guidance takes 6 to 12 % less CPU."""
    name = f"{platform.python_implementation()} {platform.python_version()} ({platform.python_compiler()}) in {sys.base_prefix}"
    return f"{name}, built {'with' if is_guided(*sysconfig.get_config_vars(*SETTINGS)) else 'without'} profile guidance"
