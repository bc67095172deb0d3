"""The routes that look back."""

import time

import pytest
from msgspec.structs import replace

from router.contract.past import PageRow
from router.contract.target import Price
from router.contract.words import Outcome, TurnKind
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


async def test_turns_come_in_pages_and_have_what_their_calls_came_to(tandem):
    shown = (await call(tandem.port, "/tandem/turns?limit=2")).json
    rest = (await call(tandem.port, f"/tandem/turns?before={shown['next']}")).json

    assert [turn["id"] for turn in (*shown["turns"], *rest["turns"])] == ["req_3", "req_2", "req_1"]
    assert rest["next"] is None
    turn = shown["turns"][1]
    assert (turn["tier"], turn["target"], turn["calls"], turn["cost_usd"], turn["outcome"]) == (
        "deep",
        "sage",
        1,
        0.25,
        "SERVED",
    )
    assert "words" not in turn


async def test_requests_come_one_by_one_with_their_number_and_only_those_that_match(start, tmp_path):
    write_ledger(tmp_path / "test.db", *of_one_turn())
    tandem = await start(CONFIG)

    every = (await call(tandem.port, "/tandem/requests")).json
    deep = (await call(tandem.port, "/tandem/requests?tier=deep")).json

    assert [row["id"] for row in every["requests"]] == ["req_4", "req_3", "req_2", "req_1"]
    assert [row["number"] for row in every["requests"]] == [4, 3, 2, 1]
    assert [(row["id"], row["target"]) for row in deep["requests"]] == [("req_3", "sage")]
    assert every["next"] is deep["next"] is None
    rows = (await call(tandem.port, "/tandem/turns/req_1")).json["rows"]
    assert [{**row, "number": 0} for row in every["requests"]] == rows[::-1]


async def test_requests_go_on_where_the_page_before_ended(tandem):
    first = (await call(tandem.port, "/tandem/requests?limit=2")).json
    rest = (await call(tandem.port, f"/tandem/requests?before={first['next']}")).json

    assert [row["id"] for row in (*first["requests"], *rest["requests"])] == ["req_3", "req_2", "req_1"]


def of_one_turn(*, until: int = 4) -> list:
    """An ask on fast with tool calls, the third of which deep served."""
    loop = {"session": "w", "turn_kind": TurnKind.TOOL_LOOP}
    tiers = {
        3: {
            "tier": "deep",
            "target": "sage",
            "because": "spark failed (503), so sage answers: 3 tool calls into a turn on fast",
        }
    }
    ask = make_entry("req_1", ANN, at=NOW - 40, session="w", cost_usd=0.1)
    more = [make_entry(f"req_{n}", ANN, at=NOW - 40 + n, cost_usd=0.1, **loop, **tiers.get(n, {})) for n in range(2, until + 1)]
    return [ask, *more]


async def test_a_turn_is_one_row_with_its_hops_and_opens_to_its_calls(start, tmp_path):
    write_ledger(tmp_path / "test.db", *of_one_turn())
    tandem = await start(CONFIG)

    (turn,) = (await call(tandem.port, "/tandem/turns?tier=deep")).json["turns"]
    opened = (await call(tandem.port, "/tandem/turns/req_4")).json

    assert (turn["id"], turn["calls"], turn["tier"], turn["cost_usd"]) == ("req_1", 4, "fast", pytest.approx(0.4))
    assert [(hop["id"], hop["call"], hop["hop"]) for hop in turn["hops"]] == [("req_3", 3, "up"), ("req_4", 4, "down")]
    assert turn["hops"][0]["because"].startswith("spark failed (503), so sage answers")
    assert opened["turn"] == turn
    assert [row["id"] for row in opened["rows"]] == ["req_1", "req_2", "req_3", "req_4"]
    assert (await call(tandem.port, "/tandem/turns/req_9")).status == 404


async def test_a_turn_whose_calls_are_on_two_pages_is_shown_once_and_whole(start, tmp_path):
    others = [make_entry(f"other_{n}", BOB, at=NOW - 38.5, session=f"o{n}") for n in range(2)]
    write_ledger(tmp_path / "test.db", *of_one_turn(until=2), *others, *of_one_turn()[2:])
    tandem = await start(CONFIG)

    first = (await call(tandem.port, "/tandem/turns?limit=2")).json
    second = (await call(tandem.port, f"/tandem/turns?before={first['next']}")).json

    assert [(turn["id"], turn["calls"]) for turn in (*first["turns"], *second["turns"])] == [
        ("req_1", 4),
        ("other_1", 1),
        ("other_0", 1),
    ]


async def test_a_mark_shows_in_its_turn_which_can_be_marked_only_where_a_choice_was_made(start, tmp_path):
    path = tmp_path / "test.db"
    refused = {"outcome": Outcome.REFUSED, "status": 429, "error": "budget_spent", "tier": None, "target": None}
    write_ledger(
        path,
        make_entry("req_1", ANN, at=NOW - 30, session="s", decision='{"v":3,"tier":"fast","decided_by":"estimate"}'),
        make_entry("req_2", ANN, at=NOW - 20, session="t", **refused),
        make_entry("req_3", ANN, at=NOW - 10, session="u", turn_kind=TurnKind.SIDE),
    )
    tandem = await start(CONFIG)
    before = (await call(tandem.port, "/tandem/turns")).json["turns"]

    await call(tandem.port, "/tandem/wrong/req_1", b'{"tier": "deep"}')

    after = (await call(tandem.port, "/tandem/turns")).json["turns"]
    assert [(turn["id"], turn["mark"]) for turn in after] == [("req_3", None), ("req_2", None), ("req_1", "deep")]
    assert [turn["can_be_marked"] for turn in before] == [turn["can_be_marked"] for turn in after] == [False, False, True]


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
        turns = (await call(tandem.port, f"/tandem/turns{query}", headers=callers[name])).json["turns"]
        requests = (await call(tandem.port, f"/tandem/requests{query}", headers=callers[name])).json["requests"]
        assert [turn["id"] for turn in turns] == [request["id"] for request in requests]
        return [turn["id"] for turn in turns]

    assert await ids("ann") == await ids("ann", "?caller=bob") == ["req_2", "req_1"]
    assert await ids("boss") == ["req_3", "req_2", "req_1"]
    assert await ids("boss", "?caller=bob") == ["req_3"]
    assert (await call(tandem.port, "/tandem/sessions/t", headers=callers["ann"])).status == 404
    assert (await call(tandem.port, "/tandem/sessions/t", headers=callers["boss"])).status == 200
    sessions = (await call(tandem.port, "/tandem/sessions", headers=callers["bob"])).json["sessions"]
    assert [sums["session"] for sums in sessions] == ["t"]
    assert (await call(tandem.port, "/tandem/series", headers=callers["ann"])).json["targets"].keys() == {"spark", "sage"}
    assert (await call(tandem.port, "/tandem/turns/req_3", headers=callers["ann"])).status == 404
    assert (await call(tandem.port, "/tandem/turns")).status == 401
    assert (await call(tandem.port, "/tandem/requests")).status == 401


async def test_words_are_shown_to_those_who_ask_where_texts_are_kept(start, tmp_path):
    fill(tmp_path)
    tandem = await start(TEXTS)

    asked = (await call(tandem.port, "/tandem/turns?words=1")).json["turns"]
    unasked = (await call(tandem.port, "/tandem/turns")).json["turns"]

    assert [turn["words"] for turn in asked] == [None, None, "typed for req_1"]
    assert not any("words" in turn for turn in unasked)


async def test_words_stay_hidden_where_texts_are_not_kept(tandem):
    assert not any("words" in turn for turn in (await call(tandem.port, "/tandem/turns?words=1")).json["turns"])


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

    assert (reply.status, len(reply.json["turns"])) == (200, 3)


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
