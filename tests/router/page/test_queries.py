"""The routes that look back."""

import time

import pytest
from msgspec.structs import replace

from router.contract.past import PageRow
from router.contract.target import Price
from router.page.queries import cost_of_hop, wait_of_hop
from tests.tools.http import call, chat
from tests.tools.kept import ANN, BOB, LINE, make_entry
from tests.tools.keyed import KEYS, Callers
from tests.tools.ledgers import write_ledger
from tests.tools.running import two_targets

NOW = time.time()
CONFIG = two_targets("http://127.0.0.1:9", "http://127.0.0.1:9")
TEXTS = CONFIG.replace("{path: test.db}", "{path: test.db, keep_text: true}")


def fill(folder) -> None:
    write_ledger(
        folder / "test.db",
        make_entry("req_1", ANN, at=NOW - 30, session="s", prompt_text="{}"),
        make_entry("req_2", ANN, at=NOW - 20, session="s", tier="deep", target="sage", cost_usd=0.25),
        make_entry("req_3", BOB, at=NOW - 10, session="t"),
    )


@pytest.fixture
async def tandem(start, tmp_path):
    fill(tmp_path)
    return await start(CONFIG)


async def test_turns_have_every_field_of_a_line_and_the_pages_own(tandem):
    shown = (await call(tandem.port, "/tandem/turns?limit=2")).json
    rest = (await call(tandem.port, f"/tandem/turns?before={shown['next']}")).json

    assert [row["id"] for row in (*shown["rows"], *rest["rows"])] == ["req_3", "req_2", "req_1"]
    assert rest["next"] is None
    row = shown["rows"][1]
    assert (row["number"], row["hop"], row["decided_by"], row["streaming"], row["attempts"]) == (2, "up", "estimate", True, 1)
    assert "words" not in row
    assert "request_id" not in row


async def test_a_session_is_summed_up_and_its_hops_are_shown(tandem):
    listed = (await call(tandem.port, "/tandem/sessions")).json
    one = (await call(tandem.port, "/tandem/sessions/s")).json

    assert [sums["session"] for sums in listed["sessions"]] == ["t", "s"]
    assert one["session"] == listed["sessions"][1]
    assert (one["session"]["calls"], one["session"]["fast_turns"], one["session"]["deep_turns"]) == (2, 1, 1)
    assert (one["session"]["cost_usd"], one["session"]["unpriced"]) == (0.25, 1)
    assert [row["hop"] for row in one["rows"]] == [None, "up"]
    assert ["hop_cost_usd" in row for row in one["rows"]] == [False, True]
    assert (await call(tandem.port, "/tandem/sessions/none")).status == 404


async def test_a_series_has_a_value_for_each_step(tandem):
    shown = (await call(tandem.port, "/tandem/series?span=15m")).json

    assert (shown["span"], shown["step_seconds"], len(shown["at"])) == ("15m", 15.0, 60)
    assert {name: sum(series["calls"]) for name, series in shown["targets"].items()} == {"sage": 1, "spark": 2}
    assert {len(values) for series in shown["targets"].values() for name, values in series.items() if name != "tier"} == {60}


async def test_a_caller_sees_its_own_rows_and_an_admin_all(start, tmp_path):
    fill(tmp_path)
    callers = Callers(tmp_path, ann={}, bob={}, boss={"admin": True})
    tandem = await start(KEYS + CONFIG)

    async def ids(name: str, query: str = "") -> list[str]:
        rows = (await call(tandem.port, f"/tandem/turns{query}", headers=callers[name])).json["rows"]
        return [row["id"] for row in rows]

    assert await ids("ann") == await ids("ann", "?caller=bob") == ["req_2", "req_1"]
    assert await ids("boss") == ["req_3", "req_2", "req_1"]
    assert await ids("boss", "?caller=bob") == ["req_3"]
    assert (await call(tandem.port, "/tandem/sessions/t", headers=callers["ann"])).status == 404
    assert (await call(tandem.port, "/tandem/sessions/t", headers=callers["boss"])).status == 200
    sessions = (await call(tandem.port, "/tandem/sessions", headers=callers["bob"])).json["sessions"]
    assert [sums["session"] for sums in sessions] == ["t"]
    assert (await call(tandem.port, "/tandem/series", headers=callers["ann"])).json["targets"].keys() == {"spark", "sage"}
    assert (await call(tandem.port, "/tandem/turns")).status == 401


async def test_words_are_shown_to_those_who_ask_where_texts_are_kept(start, tmp_path):
    fill(tmp_path)
    tandem = await start(TEXTS)

    asked = (await call(tandem.port, "/tandem/turns?words=1")).json["rows"]
    unasked = (await call(tandem.port, "/tandem/turns")).json["rows"]

    assert [row["words"] for row in asked] == [None, None, "typed for req_1"]
    assert not any("words" in row for row in unasked)


async def test_words_stay_hidden_where_texts_are_not_kept(tandem):
    assert not any("words" in row for row in (await call(tandem.port, "/tandem/turns?words=1")).json["rows"])


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("turns?limit=x", "limit"),
        ("turns?before=-1", "before"),
        ("turns?since=nan", "since"),
        ("turns?tier=medium", "tier"),
        ("turns?outcome=fine", "outcome"),
        ("sessions?before=1e5", "before"),
        ("series?span=10y", "span"),
        ("past/turns?count=0", "count"),
        ("past/turns?count=x", "count"),
        ("past/sessions?count=10001", "count"),
        ("past/sums?since=-1", "since"),
    ],
)
async def test_a_wrong_question_names_its_field(tandem, query, param):
    reply = await call(tandem.port, f"/tandem/{query}")

    assert (reply.status, reply.json["error"]["param"]) == (400, param)


async def test_ten_years_of_rows_are_bounded_to_a_page(tandem):
    reply = await call(tandem.port, f"/tandem/turns?since={10 * 365 * 86_400}&limit=1000000")

    assert (reply.status, len(reply.json["rows"])) == (200, 3)


async def test_without_a_ledger_there_is_nothing_to_look_back_at_and_the_feed_goes_on(start):
    tandem = await start(CONFIG.replace("{path: test.db}", "{path: null}"))

    assert (await call(tandem.port, "/tandem/turns")).status == 404
    assert (await call(tandem.port, "/v1/chat/completions", chat())).status >= 400
    assert len(tandem.house.state.ring.rows) == 1


async def test_a_question_that_takes_too_long_is_refused_with_what_to_do(tandem, monkeypatch):
    monkeypatch.setattr("router.stores.sqlite.pages.WITHIN_SECONDS", -1.0)
    monkeypatch.setattr("router.stores.sqlite.files._STEPS", 1)

    reply = await call(tandem.port, "/tandem/series?span=7d")

    assert reply.status == 503
    assert "ask for a shorter span" in reply.json["error"]["message"]


def row(number, tier, before=None, **more):
    return PageRow(number, replace(LINE, tier=tier, target=f"{tier}-1", **more), None, None, before)


ROWS = [
    row(1, "fast", input_tokens=8_900, output_tokens=100),
    row(2, "deep", "fast", input_tokens=10_000, cached_tokens=1_000, ttft_ms=5_000.0),
    row(3, "deep", "deep", ttft_ms=2_000.0),
]
PRICES = {"deep-1": Price(input=2.0, output=8.0, cached_input=0.5)}


def test_a_hop_costs_what_the_cold_part_of_the_prompt_before_costs_more_than_cached():
    assert cost_of_hop(ROWS, 1, PRICES.get) == 8_000 * 1.5 / 1_000_000


def test_a_hop_takes_as_much_longer_as_its_first_token_was_late():
    assert wait_of_hop(ROWS, 1) == 3.0


def test_what_cannot_be_known_of_a_hop_is_none():
    assert cost_of_hop(ROWS, 1, {}.get) is None
    assert cost_of_hop(ROWS[1:], 0, PRICES.get) is None
    assert cost_of_hop([row(1, "fast", input_tokens=None), ROWS[1]], 1, PRICES.get) is None
    assert wait_of_hop(ROWS[:2], 1) is None
