"""What the ledger says of a decision when it is asked."""

import orjson
import pytest

from router.contract.entry import Attempt
from router.settle.explain import explain_entry
from tests.tools.exchanges import make_decision
from tests.tools.kept import make_entry

ATTEMPTS = (Attempt("spark", 500, "upstream_refused", 0.2), Attempt("sage", 200, None, 0.4))


def test_the_decision_is_told_with_what_became_of_it():
    entry = make_entry("req_5", decision=make_decision(), attempts=ATTEMPTS, target="sage", cost_usd=0.01, dropped=("top_k",))

    told = explain_entry(entry)

    assert (told["request_id"], told["outcome"], told["served_by"]) == ("req_5", "SERVED", "sage")
    assert (told["tier"], told["because"], told["decided_by"]) == ("fast", "looks like a quick edit", "estimate")
    assert told["attempts"] == [
        {"target": "spark", "status": 500, "error": "upstream_refused", "seconds": 0.2},
        {"target": "sage", "status": 200, "error": None, "seconds": 0.4},
    ]
    assert (told["ttft_ms"], told["duration_ms"], told["overhead_ms"]) == (20.0, 100.0, 0.3)
    assert (told["cost_usd"], told["dropped"]) == (0.01, ["top_k"])


def test_it_can_be_written_as_json():
    assert orjson.loads(orjson.dumps(explain_entry(make_entry(attempts=ATTEMPTS)))) == explain_entry(
        make_entry(attempts=ATTEMPTS)
    )


def test_an_entry_without_a_decision_has_nothing_to_explain():
    with pytest.raises(AssertionError):
        explain_entry(make_entry(decision=None))
