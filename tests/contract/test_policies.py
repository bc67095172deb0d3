"""What every policy must hold to, whoever wrote it. Nobody edits this to let a newcomer in."""

import ast
import inspect
import itertools

import pytest

from router.contract.opinions import Insist, Lean, PolicyConfig, RuleOut
from router.contract.words import Dialect, TurnKind
from router.wiring.registry import POLICIES
from tests.tools.values import ask, make_signals, make_view

VIEWS = [
    ask(),
    ask("x" * 100_000),
    ask("implement it all", reasoning_effort="max", headers={"x-tandem-tier": "deep"}),
    make_view({"input": []} | {"previous_response_id": "r"}, Dialect.RESPONSES),
    make_view({"prompt": "def f("}, Dialect.COMPLETIONS),
]


@pytest.fixture(params=list(POLICIES))
def policy(request):
    found = POLICIES[request.param]
    return found(found.Config())


def test_it_has_a_name_and_a_config_whose_fields_explain_themselves(policy):
    (body,) = ast.parse(inspect.getsource(type(policy).Config)).body
    explained = {
        field.target.id
        for field, text in itertools.pairwise(body.body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and len(ast.literal_eval(text.value).split()) > 2
    }

    assert POLICIES[policy.name] is type(policy)
    assert issubclass(type(policy).Config, PolicyConfig)
    assert type(policy).__doc__
    assert explained >= set(type(policy).Config.model_fields)


def test_it_answers_opinions_and_the_same_ones_again(policy, subtests):
    for (number, view), kind in itertools.product(enumerate(VIEWS), TurnKind):
        with subtests.test(view=number, kind=kind):
            signals = make_signals(kind=kind, text="fix it" if kind is TurnKind.ASK else None)

            opinions = policy.judge(view, signals)

            assert isinstance(opinions, tuple)
            assert all(isinstance(opinion, (Insist, RuleOut, Lean)) for opinion in opinions)
            assert all(opinion.because for opinion in opinions)
            assert policy.judge(view, signals) == opinions


def test_it_imports_no_clock_network_disk_or_randomness(policy):
    tree = ast.parse(inspect.getsource(inspect.getmodule(type(policy))))
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    assert not modules & {"time", "datetime", "random", "os", "socket", "asyncio", "pathlib", "structlog", "logging"}
