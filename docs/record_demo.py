"""Draws docs/demo.svg from a real run of `tandem demo`: `make demo-svg`.

The run happens in a pseudo-terminal, and the picture plays at the pace of what was printed there, once, and stays as it ended.
It is words in the reader's own monospace font on a dark ground, so that it is legible on light and dark pages. Anyone who wants
no motion, or has a viewer without it, sees the end.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "demo.svg"
COMMAND = "tandem demo"
COLUMNS, ROWS = 80, 50
_CHAR_WIDTH, _LINE_HEIGHT, _MARGIN, _FONT_SIZE = 8.43, 19, 16, 14
_LEAD_SECONDS = 0.8
"""Between the command and the first turn. What the routers need to start is left out: it says more of the machine."""
_OPENING_TURNS = 4
"""Shown from the first frame, so that a picture that does not move yet has turns of both tiers."""
_TICK_SECONDS = 0.45
"""The running clock is drawn this often; ten times a second would only make the file larger."""
_CLASSES = {"1": "b", "2": "d", "32": "f", "34": "p"}
_CODES = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")
_STYLE = """
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace;fill:#e6edf3}
text{white-space:pre}
.b{font-weight:bold}.d{fill:#9198a1}.f{fill:#3fb950}.p{fill:#58a6ff}.t{visibility:hidden}
@media (prefers-reduced-motion:no-preference){
.l{animation:come 1ms backwards}.t{animation:pass 1s}
@keyframes come{from,to{visibility:hidden}}@keyframes pass{from,to{visibility:visible}}}
"""

Run = tuple[str, str]
"""A class of the style sheet, and the words that are drawn in it."""


@dataclass
class Shown:
    """What one line of the screen held, and from when on."""

    at: float
    runs: list[Run] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(words for _, words in self.runs).rstrip()


class Terminal:
    """As much of a terminal as the screen uses: colours, new lines, going up, and erasing what is right and below."""

    def __init__(self) -> None:
        self.lines: list[list[Shown]] = [[]]
        self._style, self._row, self._is_fresh = "", 0, True

    def feed(self, text: str, at: float) -> None:
        """Take what was printed at one moment."""
        place = 0
        for code in _CODES.finditer(text):
            self._write(text[place : code.start()], at)
            place = code.end()
            match code[2]:
                case "m":
                    self._style = _CLASSES.get(code[1], "")
                case "A":
                    self._row, self._is_fresh = self._row - int(code[1] or 1), True
                case "K":
                    self._begin_line(at)
                case "J":
                    for line in self.lines[self._row :]:
                        line.append(Shown(at))
        self._write(text[place:], at)

    def _begin_line(self, at: float) -> None:
        if self._is_fresh:
            self.lines[self._row].append(Shown(at))
            self._is_fresh = False

    def _write(self, text: str, at: float) -> None:
        for words in re.split(r"(\r|\n)", text):
            if words == "\n":
                self._row += 1
                if self._row == len(self.lines):
                    self.lines.append([])
            if words in ("\r", "\n"):
                self._is_fresh = True
            elif words:
                self._begin_line(at)
                self.lines[self._row][-1].runs.append((self._style, words))


def _without_repeats(line: list[Shown]) -> list[Shown]:
    """The states of a line that differ from those before them."""
    return [shown for before, shown in pairwise([Shown(0.0), *line]) if shown.text != before.text]


def record(command: list[str]) -> Iterator[tuple[float, str]]:
    """Run a command in a pseudo-terminal: what it prints, and when. Raises `CalledProcessError` where it fails."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm-256color"}
    began = time.monotonic()
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=environment, cwd=ROOT) as process:  # noqa: S603  ours
        os.close(its)
        rest = b""
        while piece := _read(ours):
            *whole, rest = re.split(rb"(?<=\n)|(?=\r\x1b\[K)", rest + piece)
            for part in whole:
                yield time.monotonic() - began, part.decode()
            if rest and not rest.endswith(b"\x1b"):
                yield time.monotonic() - began, rest.decode()
                rest = b""
    os.close(ours)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def _read(ours: int) -> bytes:
    try:
        return os.read(ours, 65_536)
    except OSError:
        return b""  # so Linux says that nobody writes there any more


def draw(lines: list[list[Shown]]) -> str:
    """The picture of what was on the screen."""
    lines = [_without_repeats(line) for line in lines]
    while lines and not any(shown.text for shown in lines[-1]):
        lines = lines[:-1]
    width = round(COLUMNS * _CHAR_WIDTH + 2 * _MARGIN)
    height = (len(lines) + 1) * _LINE_HEIGHT + 2 * _MARGIN
    elements = [_text(0, f'<tspan class="d">$ </tspan><tspan class="b">{COMMAND}</tspan>', "")]
    for number, shown in enumerate(_from_first_turn(lines), 1):
        elements += _draw_line(number, shown)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" width="{width}" height="{height}"'
    ground = '<rect width="100%" height="100%" rx="8" fill="#161b22"/>'
    title = f"<title>{COMMAND}: each turn of a coding afternoon, the tier that served it, and why</title>"
    return (
        f'{head} viewBox="0 0 {width} {height}">{title}<style>{_STYLE}</style>{ground}\n' + "\n".join(elements) + "\n</svg>\n"
    )


def _from_first_turn(lines: list[list[Shown]]) -> list[list[Shown]]:
    """The lines as the picture plays them: what was shown before its first turn begins is there from the start."""
    began = [line[-1].at for line in lines if line and line[-1].text.startswith(">")]
    first = began[_OPENING_TURNS] if len(began) > _OPENING_TURNS else next(iter(began), 0.0)
    skipped = max(0.0, first - _LEAD_SECONDS)
    return [[Shown(one.at - skipped if one.at >= first else 0.0, one.runs) for one in line] for line in lines]


def _draw_line(number: int, shown: list[Shown]) -> Iterable[str]:
    """The passing states of a line, a few a second, and the one that stays."""
    if not shown:
        return
    *passing, last = shown
    passing = [one for one in passing if one.text]
    kept: list[Shown] = []
    for one in passing:
        if not kept or (one.text != kept[-1].text and one.at - kept[-1].at >= _TICK_SECONDS):
            kept.append(one)
    for one, after in pairwise([*kept, last]):
        lasts = after.at - one.at
        if lasts > 0:
            yield _text(number, _spans(one), f'class="t" style="animation-delay:{one.at:.2f}s;animation-duration:{lasts:.2f}s"')
    if last.text:
        # A browser draws its first frame before an animation of no delay is over.
        yield _text(number, _spans(last), f'class="l" style="animation-delay:{last.at:.2f}s"' if last.at else "")


def _spans(shown: Shown) -> str:
    return "".join(
        f'<tspan class="{style}">{escape(words)}</tspan>' if style else escape(words, quote=False)
        for style, words in shown.runs
    )


def _text(number: int, words: str, attributes: str) -> str:
    y = _MARGIN + number * _LINE_HEIGHT + _FONT_SIZE
    return f'<text x="{_MARGIN}" y="{y}" {attributes}>{words}</text>'.replace(" >", ">")


def main() -> None:
    """Run the demo and write its picture."""
    terminal = Terminal()
    for at, text in record([sys.executable, "-m", "router.cli", "demo"]):
        terminal.feed(text, at)
    PICTURE.write_text(draw(terminal.lines), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}, {PICTURE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
