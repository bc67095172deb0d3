import io

import pytest

from router.cli.setup.interview import Interview


@pytest.fixture
def type_in(monkeypatch):
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_where_nobody_can_answer_the_usual_is_taken_and_nothing_is_asked(capsys):
    interview = Interview(asks=False)

    assert interview.choose_many("who?", ["a", "b"], [1, 0]) == [1, 0]
    assert interview.choose_model("a", "m", ["x"]) == "m"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("typed", "chosen"),
    [("\n", [0, 1]), ("2\n", [1]), ("2, 1\n", [1, 0]), ("2 2\n", [1]), ("3\nx\n0\n1\n", [0]), ("", [0, 1])],
)
def test_numbers_choose_and_anything_else_is_asked_again(type_in, typed, chosen):
    type_in(typed)

    assert Interview(asks=True).choose_many("who?", ["a", "b"], [0, 1]) == chosen


@pytest.mark.parametrize(
    ("typed", "model", "said"),
    [("\n", "m", ""), ("x\n", "x", ""), ("?\n\n", "m", "  x\n"), ("xx\nx\n", "x", "did you mean x?"), ("", "m", "")],
)
def test_a_model_is_one_that_is_listed(type_in, capsys, typed, model, said):
    type_in(typed)

    assert Interview(asks=True).choose_model("a", "m", ["x", "m"]) == model
    assert said in capsys.readouterr().err


def test_without_a_list_any_model_will_do(type_in):
    type_in("anything\n")

    assert Interview(asks=True).choose_model("a", "m", []) == "anything"


def test_a_long_list_is_cut(type_in, capsys):
    type_in("?\n\n")

    Interview(asks=True).choose_model("a", "m", [f"x{number}" for number in range(60)])

    assert "and 20 more" in capsys.readouterr().err
