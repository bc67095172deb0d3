"""Two pictures of an evaluation, as plain SVG: how honest the scores are, and what a threshold would cost."""

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

_SIZE, _EDGE = 320, 44


def draw_reliability(points: Sequence[tuple[float, float, int]], name: str) -> str:
    """Share of long tasks by score, in a set. On the diagonal a score means what it says; a larger dot holds more turns."""
    most = max(count for _, _, count in points)
    dots = [f'<circle cx="{_x(mean)}" cy="{_y(share)}" r="{3 + 9 * count / most:.1f}"/>' for mean, share, count in points]
    line = _line([(mean, share) for mean, share, _ in points])
    diagonal = f'<path class="thin" d="M{_x(0)} {_y(0)}L{_x(1)} {_y(1)}"/>'
    return _frame(f"Reliability: {name}", "score", "share of long tasks", [diagonal, line, *dots])


def draw_cost_curve(
    curve: Sequence[tuple[float, float]], always_deep: float, chosen: Sequence[tuple[str, float, float]], name: str
) -> str:
    """Regret by threshold, in a set, next to always-deep; `chosen` are named points on or near the curve."""
    top = math.ceil(2 * max(1.0, always_deep, *(cost for _, cost in curve), *(cost for _, _, cost in chosen))) / 2
    deep = _y(always_deep / top)
    marks = [f'<path class="thin" d="M{_x(0)} {deep}L{_x(1)} {deep}"/>', _line([(x, y / top) for x, y in curve])]
    for label, share, cost in chosen:
        marks.append(f'<circle cx="{_x(share)}" cy="{_y(cost / top)}" r="4"/>')
        marks.append(f'<text x="{_x(share)}" y="{_y(cost / top) - 8}" text-anchor="middle">{escape(label)}</text>')
    up = "regret at 3:1 (thin line: always deep)"
    return _frame(f"Cost curve: {name}", "score below which turns go to fast", up, marks, top)


def _line(points: Sequence[tuple[float, float]]) -> str:
    return f'<path class="bold" d="M{"L".join(f"{_x(x)} {_y(y)}" for x, y in points)}"/>'


def _x(value: float) -> float:
    return round(_EDGE + value * (_SIZE - 2 * _EDGE), 1)


def _y(value: float) -> float:
    return round(_SIZE - _EDGE - value * (_SIZE - 2 * _EDGE), 1)


def _frame(title: str, across: str, up: str, marks: Sequence[str], top: float = 1.0) -> str:
    """A picture with its axes: from 0 to 1 across, from 0 to `top` up."""
    middle, title = _SIZE / 2, escape(title)
    ticks = [
        f'<text x="{_x(step / 4)}" y="{_SIZE - _EDGE + 14}" text-anchor="middle">{step / 4:g}</text>'
        f'<text x="{_EDGE - 6}" y="{_y(step / 4) + 3}" text-anchor="end">{top * step / 4:g}</text>'
        for step in range(5)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE}" width="{2 * _SIZE}" font-family="sans">',
            "<style>svg{background:#fff}text{font-size:9px}path{fill:none;stroke:#234}.thin{stroke-dasharray:3 3;opacity:.6}"
            ".bold{stroke-width:2}circle{fill:#c60;fill-opacity:.8}</style>",
            f"<title>{title}</title>",
            f'<text x="{middle}" y="20" text-anchor="middle" font-weight="bold">{title}</text>',
            f'<path d="M{_x(0)} {_y(1)}V{_y(0)}H{_x(1)}"/>',
            *ticks,
            f'<text x="{middle}" y="{_SIZE - 10}" text-anchor="middle">{across}</text>',
            f'<text transform="translate(12 {middle}) rotate(-90)" text-anchor="middle">{up}</text>',
            *marks,
            "</svg>",
            "",
        ]
    )
