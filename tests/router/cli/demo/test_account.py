import pytest

from router.cli.demo.account import RowsMissing, account_of, add_up, find_rows
from tests.tools.http import call, chat


def row(tier="fast", at=0.0, took=1.0, first=0.2, because="why", **more):
    served = {"id": "r", "tier": tier, "at": at, "duration_ms": took * 1000, "because": because, "outcome": "SERVED"}
    return {**served, "ttft_ms": None if first is None else first * 1000, **more}


def test_a_turn_takes_from_its_first_request_to_its_last_byte():
    turn = account_of("go", [row(at=10.0, took=1.0), row(at=11.5, took=2.0)])

    assert turn.took_seconds == pytest.approx(3.5)
    assert turn.first_token_seconds == pytest.approx(0.2)


def test_the_wait_after_a_refusal_counts():
    turn = account_of("go", [row(at=0.0, took=0.0, first=None, outcome="REFUSED"), row(at=2.0)])

    assert turn.first_token_seconds == pytest.approx(2.2)
    assert turn.tiers == ("fast",)


def test_a_turn_that_was_moved_names_both_tiers_and_the_reason_of_the_move():
    turn = account_of(
        "go", [row(because="quick"), row(because="call 1"), row("deep", because="failed"), row("deep", because="stays")]
    )

    assert turn.tiers == ("fast", "deep")
    assert turn.because == "failed"


def test_a_turn_that_stayed_has_the_reason_of_its_first_call():
    assert account_of("go", [row(because="quick"), row(because="call 1")]).because == "quick"


def test_a_failed_turn_is_done_again_by_deep_in_the_time_that_deep_took_for_it():
    failed = account_of("hard", [row(took=1.0)], has_failed=True)
    fine = account_of("easy", [row(took=1.0)])
    on_deep = [account_of("hard", [row("deep", took=8.0)]), account_of("easy", [row("deep", took=4.0)])]

    sums = add_up([failed, fine], on_deep)

    assert (sums.took_seconds, sums.redo_seconds, sums.done_seconds) == pytest.approx((2.0, 8.0, 10.0))
    assert (sums.turns, sums.failed, sums.on_fast, sums.requests) == (2, 1, 2, 2)


async def test_rows_are_found_in_the_order_of_their_requests(simulated):
    replies = [await call(simulated.port, "/v1/chat/completions", chat()) for _ in range(2)]
    ids = [reply.headers["x-tandem-request-id"] for reply in replies]

    found = await find_rows(simulated.loaded.ledger_path, list(reversed(ids)))

    assert [row["id"] for row in found] == list(reversed(ids))


async def test_a_row_that_never_comes_is_named(simulated):
    with pytest.raises(RowsMissing, match="req_lost"):
        await find_rows(simulated.loaded.ledger_path, ["req_lost"], within_seconds=0.2)
