"""Notations of other routers, and what routers do not share."""

import pytest

from router.config.cures import find_variable, list_unshared
from router.contract.secret import Secret
from router.contract.shared import PostgresTerms, SharedTerms, ValkeyTerms

WRITTEN = [
    "$K1", "${K1}", "${env:K1}", "${K1:-none}", "os.environ/K1", "{{ env.K1 }}", "{{K1}}", "%K1%", "ENV:K1", "env: K1",
    " $K1 ",
]  # fmt: skip


@pytest.mark.parametrize(("written", "name"), [
    *((written, "K1") for written in WRITTEN),
    *((written, "") for written in ("sk-proj-4f", "caller", "abc", "K1", "$", "${}", "a$K1", "pa$$word")),
    ("OPENAI_API_KEY", "OPENAI_API_KEY"),
])  # fmt: skip
def test_a_variable_in_another_notation_or_bare_is_found_and_a_plain_value_names_none(written, name):
    assert find_variable(written) == name


VALKEY, POSTGRES, SECRET = ValkeyTerms(Secret("env:A")), PostgresTerms(Secret("env:B")), Secret("env:C")


@pytest.mark.parametrize(
    ("shared", "named"),
    [
        (None, []),
        (SharedTerms("a", VALKEY, POSTGRES, SECRET), []),
        (SharedTerms("a", VALKEY, None, SECRET), ["responses with store", "the ledger", "background jobs"]),
        (
            SharedTerms("a", None, POSTGRES, SECRET),
            ["sessions", "rates, budgets and quotas", "Idempotency-Key", "previous_response_id", "what targets report"],
        ),
        (SharedTerms("a", VALKEY, POSTGRES), ["turn tokens"]),
    ],
)
def test_each_part_that_is_left_out_names_what_is_not_shared(shared, named):
    lines = list_unshared(shared, has_ledger=True)

    assert len(lines) == len(named)
    assert all(line.startswith(name) for line, name in zip(lines, named, strict=True))


def test_without_a_ledger_there_is_nothing_to_copy():
    (line,) = list_unshared(SharedTerms("a", VALKEY, POSTGRES, SECRET), has_ledger=False)

    assert line.startswith("the ledger: ledger.path is null")
