"""Install one of the locks next to this file, and the checkout itself, into the environment whose Python runs this.

`make` calls it: `.venv/bin/python requirements/install.py serve`. Standard library only, since nothing else is there yet.
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent
PIP = (sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input")
PIN = re.compile(r"^[A-Za-z0-9._-]+==", re.MULTILINE)
STEP = re.compile(r"(?:Collecting|Processing|Requirement already satisfied:) (?:\S*/)?([A-Za-z0-9._-]+?)(?:==|-\d)")


class Progress:
    """Packages looked at so far. A terminal sees one line that changes; a log gets a line for every tenth package."""

    def __init__(self, total: int, out: IO[str]) -> None:
        self.total, self.out, self.count = total, out, 0

    def hear(self, line: str) -> None:
        """Take note of a line that pip printed."""
        if line.startswith("Ignoring "):  # for another system
            self.total -= 1
        elif found := STEP.match(line):
            self.count += 1
            self.show(found.group(1), is_milestone=self.count % 10 == 0)
        elif line.startswith("Installing collected packages"):
            self.show("unpacking", is_milestone=True)

    def show(self, what: str, *, is_milestone: bool) -> None:
        text = f"  {min(self.count, self.total)} of {self.total}  {what}"
        if self.out.isatty():
            self.out.write(f"\r\033[K{text[:78]}")
        elif is_milestone:
            self.out.write(f"{text}\n")
        self.out.flush()

    def clear(self) -> None:
        if self.out.isatty():
            self.out.write("\r\033[K")
            self.out.flush()


def install(lock: Path, out: IO[str]) -> int:
    """Install what the lock names, each with its hash. Returns pip's own code."""
    progress = Progress(len(PIN.findall(lock.read_text(encoding="utf-8"))), out)
    command = [*PIP, "--progress-bar", "off", "--require-hashes", "-r", str(lock)]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True) as pip:
            assert pip.stdout is not None
            for line in pip.stdout:
                progress.hear(line)
        progress.clear()
        if pip.returncode:
            complaints.seek(0)
            sys.stderr.write(complaints.read())
    return pip.returncode


def install_checkout() -> int:
    """Make `tandem` a command that runs the files of this checkout."""
    command = [*PIP, "--quiet", "--no-deps", "--no-build-isolation", "--editable", str(HERE.parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
    return done.returncode


def main(name: str) -> int:
    lock, began = HERE / f"{name}.txt", time.monotonic()
    print(f"Installing requirements/{lock.name} into {Path(sys.prefix).name}", flush=True)
    code = install(lock, sys.stdout) or install_checkout()
    if code:
        print("The packages could not be installed. pip's reason is above; without a network it finds no version of anything.")
        return code
    print(f"Installed in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except KeyboardInterrupt:
        print()
        sys.exit(130)
