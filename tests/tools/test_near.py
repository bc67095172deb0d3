import pytest

from tests.tools.near import ALWAYS, CHECKOUT, Suite


@pytest.fixture(scope="module")
def suite() -> Suite:
    return Suite(CHECKOUT)


@pytest.mark.parametrize(
    ("changed", "expected", "unexpected"),
    [
        ("router/upstream/call.py", {"tests/router/upstream", "tests/contract/test_adapters.py"}, "tests/walk/test_tls.py"),
        ("router/sessions/turns.py", {"tests/router/sessions", "tests/walk/test_sessions.py"}, "tests/walk/test_tls.py"),
        ("router/house.py", {"tests/router/test_house.py"}, "tests/router/sessions"),
        ("policies/window.py", {"tests/policies/test_window.py", "tests/contract/test_policies.py"}, "tests/policies"),
        (
            "adapters/simulated.py",
            {"tests/adapters/test_simulated.py", "tests/contract/test_adapters.py"},
            "tests/walk/test_tls.py",
        ),
        ("tests/walk/test_tls.py", {"tests/walk/test_tls.py"}, "tests/walk"),
        ("tests/tools/cases.py", {"tests/tools/test_tools.py"}, "tests/walk/test_tls.py"),
        ("docs/glossary.md", {"tests/test_docs.py"}, "tests/walk/test_tls.py"),
        ("tests/clients/test_keys.py", set(), "tests/clients/test_keys.py"),
        ("router/sessions/no_such_module.py", {"tests/router/sessions"}, "tests/router/sessions/test_no_such_module.py"),
    ],
)
def test_a_change_leads_to_the_tests_of_its_room_and_to_the_suites_that_concern_it(suite, changed, expected, unexpected):
    near = suite.near([changed])

    assert {ALWAYS, *expected} <= set(near)
    assert unexpected not in near


def test_a_file_is_not_named_next_to_its_folder(suite):
    near = suite.near(["router/sessions/turns.py", "tests/router/sessions/test_turns.py"])

    assert "tests/router/sessions" in near
    assert "tests/router/sessions/test_turns.py" not in near
