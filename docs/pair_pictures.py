"""The two pictures of decide/savings.md: plain SVG on its own ground, light or dark as the reader has it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from pair_outcomes import CHECKS, KEPT, PAIRS, USUAL, Check, Pair, Row, run_both

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 500, 68, 24, 92, 78
_STYLE = """
text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;fill:#1f2328}
.ground{fill:#ffffff;stroke:#d1d9e0}.title{font-size:16px;font-weight:600}.bold{font-weight:700}.small{font-size:11.5px;fill:#59636e}
.axis{stroke:#59636e;fill:none}.grid{stroke:#d1d9e0;fill:none}.line{stroke:#59636e;stroke-dasharray:5 4;fill:none}
.good{stroke:#0b6bcb;fill:#0b6bcb}.bad{stroke:#bc4c00;fill:#bc4c00}path.good,path.bad{fill:none;stroke-width:2}
.hollow{fill:#ffffff;stroke-width:2}text.good{fill:#0b6bcb;stroke:none}text.bad{fill:#bc4c00;stroke:none}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}.ground{fill:#161b22;stroke:#3d444d}.small{fill:#9198a1}.axis,.line{stroke:#9198a1}.grid{stroke:#30363d}
.good{stroke:#6cb6ff;fill:#6cb6ff}.bad{stroke:#f69d50;fill:#f69d50}path.good,path.bad{fill:none}
.hollow{fill:#161b22}text.good{fill:#6cb6ff}text.bad{fill:#f69d50}}
"""


@dataclass(frozen=True)
class Frame:
    """Where values are on the picture."""

    x: Callable[[float], float]
    y: Callable[[float], float]


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    return lambda value: round(start + (value - low) / (high - low) * (end - start), 1)


def _frame(across: tuple[float, float], up: tuple[float, float], read: Callable[[float], float] = float) -> Frame:
    x = _scale(read(across[0]), read(across[1]), _LEFT, _WIDTH - _RIGHT)
    return Frame(lambda value: x(read(value)), _scale(*up, _HEIGHT - _BOTTOM, _TOP))


def _draw(
    frame: Frame, titles: tuple[str, str, str, str], ticks: tuple[Sequence[float], Sequence[float]], marks: list[str]
) -> str:
    """A whole picture. Titles: its own, the line under it, across and up."""
    title, under, across, up = titles
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect class="ground" x=".5" y=".5" width="{_WIDTH - 1}" height="{_HEIGHT - 1}" rx="8"/>',
        _text(_LEFT, 34, title, "title"),
        _text(_LEFT, 56, under, "small"),
    ]
    for value in ticks[0]:
        parts.append(f'<path class="grid" d="M{frame.x(value)} {_TOP}V{bottom}"/>')
        parts.append(_text(frame.x(value), bottom + 18, f"{value:g}", "small", "middle"))
    for value in ticks[1]:
        parts.append(f'<path class="grid" d="M{_LEFT} {frame.y(value)}H{right}"/>')
        parts.append(_text(_LEFT - 8, frame.y(value) + 4, f"{value:g}", "small", "end"))
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{right}"/>')
    parts.append(_text((_LEFT + right) / 2, bottom + 38, across, "", "middle"))
    middle = (_TOP + bottom) / 2
    parts.append(f'<text transform="translate(22 {middle}) rotate(-90)" text-anchor="middle">{escape(up)}</text>')
    parts.append(_text(_LEFT, _HEIGHT - 14, SOURCE, "small"))
    return "\n".join([*parts, *marks, "</svg>", ""])


def _text(x: float, y: float, words: str, style: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{style}" text-anchor="{anchor}">{escape(words)}</text>'


SOURCE = "Source: SWE-bench Verified with mini-SWE-agent, swe-bench.github.io f1176b6. Seconds are modelled."


def draw_by_check(rows: Sequence[Row]) -> str:
    """Score by time for some pairs: fast alone, then ever stricter checks."""
    frame = _frame((0, 1.4), (0.25, 1.1))
    legend_x, legend_y = frame.x(1.4) - 326, frame.y(0.575)
    marks = [
        f'<path class="line" d="M{frame.x(1)} {_TOP}V{_HEIGHT - _BOTTOM}M{_LEFT} {frame.y(1)}H{_WIDTH - _RIGHT}"/>',
        f'<path class="axis" d="M{frame.x(1) - 6} {frame.y(1)}l6 -6l6 6l-6 6z"/>',
        _text(frame.x(1) + 8, frame.y(1) - 12, "deep alone"),
        f'<rect class="ground" x="{legend_x - 10}" y="{legend_y - 20}" width="330" height="122" rx="4"/>',
    ]
    for letter, (fast, deep), row in zip("ABCDE", PAIRS[1:], range(5), strict=True):
        usual = run_both(rows, fast, deep, USUAL)
        style = "good" if usual.keeps_score and usual.is_sooner else "bad"
        found = [run_both(rows, fast, deep, check) for check in (Check(0, 0), *reversed(CHECKS[1:]))]
        places = [(frame.x(got.seconds), frame.y(got.score)) for got in found]
        marks.append(f'<path class="{style}" d="M{"L".join(f"{x} {y}" for x, y in places)}"/>')
        marks.append(f'<circle class="{style} hollow" cx="{places[0][0]}" cy="{places[0][1]}" r="4.5"/>')
        for (x, y), radius in zip(places[1:], (4, 6.5, 4), strict=True):
            marks.append(f'<circle class="{style}" cx="{x}" cy="{y}" r="{radius}"/>')
        marks.append(_text(places[0][0], places[0][1] + 20, letter, f"{style} bold", "middle"))
        marks.append(_text(legend_x, legend_y + 22 * row, letter, f"{style} bold"))
        told = f"{fast} → {deep}: {usual.score:.2f} in {usual.seconds:.2f}"
        marks.append(_text(legend_x + 18, legend_y + 22 * row, told, style))
    return _draw(
        frame,
        (
            "Fast first, then deep where a check says so",
            "Open dot: fast alone. Then a check that catches 50 %, 70 % (large dot, and figures) and 90 % of fast's failures.",
            "time, as a share of deep alone",
            "score, as a share of deep alone",
        ),
        ([0, 0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4], [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1]),
        marks,
    )


def draw_by_pair(pairs: Sequence[Pair]) -> str:
    """Every pair of the board by what fast can do alone and how many calls it makes; the sign says what came of it."""
    frame = _frame((0.16, 8), (0.3, 1.05), math.log)
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    marks = [
        f'<path class="line" d="M{frame.x(2)} {_TOP}V{bottom}M{_LEFT} {frame.y(2 / 3)}H{right}"/>',
        _text(right - 6, frame.y(2 / 3) + 18, "two thirds of deep's score", "", "end"),
        _text(frame.x(2) + 8, bottom - 10, "twice deep's calls"),
    ]
    signs: Sequence[tuple[str, Callable[[float, float], str]]] = (
        ("good", lambda x, y: f'<circle class="good" cx="{x}" cy="{y}" r="4.5"/>'),
        ("score", lambda x, y: f'<circle class="bad hollow" cx="{x}" cy="{y}" r="4.5"/>'),
        ("time", lambda x, y: f'<path class="bad" d="M{x - 4:g} {y - 4:g}l8 8m0 -8l-8 8"/>'),
    )
    draw = dict(signs)
    for pair in pairs:
        came = "time" if not pair.got.is_sooner else "good" if pair.got.keeps_score else "score"
        marks.append(draw[came](frame.x(pair.calls), frame.y(pair.lead)))
    meanings = (f"{100 * KEPT:.0f} % of deep's score or more, in less time", "less than that", "takes longer than deep alone")
    for (_, sign), words, x in zip(signs, meanings, (_LEFT, _LEFT + 282, _LEFT + 410), strict=True):
        marks += [sign(x + 6, 72), _text(x + 18, 76, words, "small")]
    return _draw(
        frame,
        (
            "Where two tiers pay: all pairs of models on the board",
            f"Each sign is a pair, with a check that catches {100 * USUAL.catch:.0f} % of fast's failures.",
            "calls that fast makes, as a share of deep's (log scale)",
            "fast's own score, as a share of deep's",
        ),
        ([0.2, 0.5, 1, 2, 4, 8], [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]),
        marks,
    )
