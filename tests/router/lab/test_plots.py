"""Two pictures: points stand where their figures say."""

import re
import xml.etree.ElementTree as ET

from router.lab.plots import draw_cost_curve, draw_reliability

SVG = "{http://www.w3.org/2000/svg}"


def circles(picture: str) -> list[tuple[float, float, float]]:
    found = ET.fromstring(picture).findall(f"{SVG}circle")
    return [tuple(float(circle.get(name)) for name in ("cx", "cy", "r")) for circle in found]


def place(x: float, y: float) -> tuple[float, float]:
    """Where a share across and a share up stand, on 320 points with an edge of 44."""
    return (44 + 232 * x, 276 - 232 * y)


def test_a_dot_stands_at_its_score_and_share_and_grows_with_its_turns():
    few, many = circles(draw_reliability([(0.25, 0.5, 20), (1.0, 0.0, 40)], "all"))

    assert (few[:2], many[:2]) == (place(0.25, 0.5), place(1.0, 0.0))
    assert (few[2], many[2]) == (3 + 9 / 2, 12)


def test_the_axis_reaches_as_far_as_the_regret_so_that_no_point_is_cut():
    picture = draw_cost_curve([(0.0, 0.25), (0.5, 2.0)], always_deep=0.5, chosen=[("balanced", 0.5, 2.0)], name="all")

    bold = re.search(r'class="bold" d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"', picture)
    assert tuple(map(float, bold.groups())) == (*place(0.0, 0.125), *place(0.5, 1.0))
    assert [dot[:2] for dot in circles(picture)] == [place(0.5, 1.0)]
    assert {f">{tick}</text>" for tick in ("0.5", "1", "1.5", "2")} <= set(re.findall(r">[\d.]+</text>", picture))
    assert ">balanced</text>" in picture


def test_the_thin_line_is_what_everything_on_deep_would_cost():
    picture = draw_cost_curve([(0.0, 0.0), (1.0, 1.0)], always_deep=0.75, chosen=[], name="all")

    thin = re.search(r'class="thin" d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"', picture)
    assert tuple(map(float, thin.groups())) == (*place(0.0, 0.75), *place(1.0, 0.75))


def test_a_picture_names_its_set_whatever_is_in_the_name():
    pictures = (
        draw_reliability([(0.5, 0.5, 1)], "asks <of> a & b"),
        draw_cost_curve([(0.0, 0.0)], always_deep=0.5, chosen=[], name="asks <of> a & b"),
    )

    titles = [ET.fromstring(picture).find(f"{SVG}title").text for picture in pictures]
    assert titles == ["Reliability: asks <of> a & b", "Cost curve: asks <of> a & b"]
