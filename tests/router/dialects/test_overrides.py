"""Overrides by header: what is read, and typos that are refused."""

import pytest

from router.contract.errors import UnknownOverride
from router.contract.words import Tier
from tests.tools.values import ask


def test_overrides_are_read_from_headers():
    headers = {"x-tandem-tier": "Deep", "x-tandem-scope": "session", "x-tandem-session": "s1", "x-tandem-max-wait": "2.5"}

    overrides = ask(headers=headers).overrides

    assert (overrides.tier, overrides.for_session, overrides.session, overrides.max_wait_seconds) == (
        Tier.DEEP,
        True,
        "s1",
        2.5,
    )


@pytest.mark.parametrize(
    ("name", "value", "listed"),
    [
        ("x-tandem-tier", "turbo", "fast, deep, auto"),
        ("x-tandem-scope", "week", "request, session"),
        ("x-tandem-on-misfit", "panic", "error, other"),
        ("x-tandem-explain", "short", "full"),
        ("x-tandem-max-wait", "soon", "seconds"),
        ("x-tandem-max-wait", "nan", "seconds"),
        ("x-tandem-session", "", "1 to 200"),
        ("x-tandem-teir", "fast", "x-tandem-tier"),
        ("x-tandem-scope", "session", "x-tandem-tier"),
    ],
)
def test_a_typo_in_an_override_is_refused_with_what_is_known(name, value, listed):
    with pytest.raises(UnknownOverride, match=listed):
        ask(headers={name: value})
