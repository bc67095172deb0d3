"""What Claude Code says of itself in a body."""

import pytest

from router.sessions.clients.claude_code import CLAUDE_CODE, read_stated
from tests.tools.values import ask


@pytest.mark.parametrize(
    ("metadata", "session"),
    [
        ({"user_id": '{"session_id":"s"}'}, "s"),
        ({"session_id": "s"}, "s"),
        ({"user_id": '{"session_id":"s"}', "session_id": "t"}, "s"),
        ({"user_id": "user_1_account__session_2"}, ""),
        ({"user_id": ["s"]}, ""),
        ("s", ""),
    ],
)
def test_its_session_is_in_the_metadata(metadata, session):
    assert read_stated(ask(metadata=metadata)).session == session


@pytest.mark.parametrize(
    ("safeguards", "is_planning"),
    [
        ([{"classifier_context": {"permission_mode": "plan"}}], True),
        ([{"classifier_context": {"permission_mode": "default"}}], False),
        ([{"classifier_context": "plan"}], False),
        (["plan"], False),
        ([], False),
        (None, False),
    ],
)
def test_its_safeguards_are_told_of_plan_mode(safeguards, is_planning):
    assert bool(CLAUDE_CODE.plan.read_field(ask(safeguards=safeguards).body)) is is_planning
