"""Names of tools over a bridge: short enough for every host, one for each tool, the same in every request."""

import re

from hypothesis import given
from hypothesis import strategies as some

from router.dialects.translate.names import ToolNames

LONG = "mcp__" + "x" * 90


def test_a_name_that_fits_stays_as_it_is_and_one_of_a_group_is_joined_to_it():
    names = ToolNames()

    assert names.seen("look") == "look"
    assert names.seen("a" * 64) == "a" * 64
    assert names.seen("find", "mcp") == "mcp__find"


def test_a_tool_that_is_named_as_another_would_be_does_not_become_it():
    made = ToolNames().seen(LONG)
    first, second = ToolNames(), ToolNames()

    assert first.seen(made) != first.seen(LONG)
    assert second.seen(LONG) != second.seen(made)


@given(some.sets(some.tuples(some.none() | some.text(max_size=70), some.text(min_size=1, max_size=140)), max_size=12))
def test_every_tool_has_a_name_of_its_own_that_every_host_takes(tools):
    names = ToolNames()

    seen = [names.seen(name, namespace) for namespace, name in tools]

    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in seen)
    assert len(set(seen)) == len({(namespace or "", name) for namespace, name in tools})
