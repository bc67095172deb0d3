"""The page of what is broken."""

import pytest

from router.contract.notices import Notice, Trouble
from tests.router.edge.control.test_stats import callers  # noqa: F401  two callers with keys
from tests.tools.edge import running_edge
from tests.tools.http import call

KEY = Notice(Trouble.KEY_REFUSED, "spark", 100.0, "spark: its host refuses the API key", "tandem check --live")
BUDGETS = [Notice(Trouble.BUDGET_SPENT, name, 200.0, f"{name}: spent", "ask") for name in ("ada", "bob")]
LEDGER = Notice(Trouble.LEDGER_LOSING, "", 300.0, "the ledger loses rows", "tandem check --live")


@pytest.fixture
async def port(road):
    async with running_edge(road, notices=lambda: [KEY, *BUDGETS, LEDGER]) as (port, _):
        yield port


async def test_a_trouble_is_listed_with_its_text_and_a_hint(port):
    reply = await call(port, "/tandem/notices")

    assert reply.json["notices"][0] == {
        "kind": "key_refused",
        "subject": "spark",
        "since": 100.0,
        "text": "spark: its host refuses the API key",
        "hint": "tandem check --live",
    }
    assert len(reply.json["notices"]) == 4


async def test_a_caller_sees_targets_and_its_own_budget_and_an_admin_all(port, callers):  # noqa: F811
    own, whole = [
        [notice["subject"] for notice in (await call(port, "/tandem/notices", headers=callers[name])).json["notices"]]
        for name in ("ada", "boss")
    ]

    assert own == ["spark", "ada"]
    assert whole == ["spark", "ada", "bob", ""]


async def test_where_keys_are_needed_nobody_sees_it_without_one(port, callers):  # noqa: F811
    assert (await call(port, "/tandem/notices")).status == 401
