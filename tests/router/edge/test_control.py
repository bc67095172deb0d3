"""The control plane before a fake road: models, explanations, decisions, health, refusals."""

import pytest

from router.contract.caller import LOCAL, Caller
from router.contract.target import Quota
from router.contract.words import Dialect, Tier
from router.edge.control import CurrentCatalogue
from router.sessions.clients.codex import STORED_MODELS
from router.telemetry import events
from tests.tools.edge import FakePlan, FakeRoad, running_edge
from tests.tools.http import call, chat
from tests.tools.values import make_target


@pytest.fixture
async def road():
    return FakeRoad()


@pytest.fixture
async def port(road):
    async with running_edge(road) as (port, _):
        yield port


async def test_models_come_in_three_shapes(port, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert (await call(port, "/models?client_version=0.166.0")).json == {"models": []}
    (tmp_path / "tandem" / STORED_MODELS).parent.mkdir(parents=True)
    (tmp_path / "tandem" / STORED_MODELS).write_text('{"auto": {}, "fast": {}, "deep": {}}')
    openai = await call(port, "/v1/models")
    codex = await call(port, "/models?client_version=0.166.0")
    anthropic = await call(port, "/v1/models?limit=2", headers={"anthropic-version": "2023-06-01"})

    assert openai.json["object"] == "list"
    assert {entry["slug"] for entry in codex.json["models"]} == {"auto", "fast", "deep"}
    assert (len(anthropic.json["data"]), anthropic.json["has_more"]) == (2, True)


@pytest.mark.parametrize("limit", ["0", "-1", "x", "%C2%B2", "99999"])
async def test_a_limit_that_makes_no_sense_still_gets_a_page(port, limit):
    reply = await call(port, f"/v1/models?limit={limit}")

    assert reply.status == 200
    assert reply.json["first_id"] == "auto"


async def test_one_model_is_found_by_name_and_an_unknown_one_is_a_404(port):
    assert (await call(port, "/v1/models/deep")).json["id"] == "deep"
    missing = await call(port, "/v1/models/nope")
    assert (missing.status, missing.json["error"]["code"]) == (404, "model_not_found")


async def test_a_new_plan_shows_in_the_list_of_models_at_once(road, port):
    before = await call(port, "/v1/models/deep")
    road.plan = FakePlan(targets={"sage": make_target("sage", Tier.DEEP, window_tokens=7_000)})
    after = await call(port, "/v1/models/deep")

    assert (before.json["context_window"], after.json["context_window"]) == (400_000, 7_000)


def test_a_catalogue_is_made_once_for_each_plan():
    road = FakeRoad()
    current = CurrentCatalogue(road)

    first = current()
    assert current() is first
    road.plan = FakePlan()
    assert current() is not first


@pytest.mark.parametrize(
    ("query", "body", "headers", "dialect"),
    [
        ("", chat(), {}, Dialect.CHAT),
        ("", {"model": "auto", "input": "x"}, {}, Dialect.RESPONSES),
        ("", chat(), {"anthropic-version": "2023-06-01"}, Dialect.MESSAGES),
        ("?dialect=messages", chat(), {}, Dialect.MESSAGES),
    ],
)
async def test_explain_gives_the_road_the_request_as_a_create_call_would(road, port, query, body, headers, dialect):
    reply = await call(port, f"/tandem/explain{query}", body, headers)

    (arrival,) = road.explained
    assert (reply.status, reply.json["tier"]) == (200, "fast")
    assert (arrival.dialect, arrival.caller) == (dialect, LOCAL)
    assert reply.headers["x-tandem-request-id"] == arrival.id


@pytest.mark.parametrize(("query", "body"), [("?dialect=latin", chat()), ("", b"{"), ("", b"[]")])
async def test_explain_refuses_what_it_cannot_read(road, port, query, body):
    assert (await call(port, f"/tandem/explain{query}", body)).status == 400
    assert road.explained == []


async def test_explain_refuses_a_body_of_too_many_values_before_it_is_parsed(road, port):
    road.use(max_body_bytes=8 << 20)
    crowded = b'{"model":"auto","messages":[%s]}' % b",".join([b"[]"] * 1_000_000)

    assert b"too many values" in (await call(port, "/tandem/explain", crowded)).body
    assert road.explained == []


async def test_explain_takes_no_more_than_the_plan_that_counts_now_allows(road, port):
    road.use(max_body_bytes=2_048)
    chunks = b"".join(b"400\r\n" + b" " * 1024 + b"\r\n" for _ in range(4)) + b"0\r\n\r\n"

    assert (await call(port, "/tandem/explain", chunks, {"transfer-encoding": "chunked"})).status == 413


async def test_a_decision_is_shown_to_its_own_caller_alone(road, port):
    road.state.entries.kept = {("req_mine", LOCAL): {"tier": "deep"}, ("req_theirs", Caller("other")): {"tier": "fast"}}

    mine = await call(port, "/tandem/decisions/req_mine")
    theirs = await call(port, "/tandem/decisions/req_theirs")

    assert (mine.status, mine.json) == (200, {"tier": "deep"})
    assert theirs.status == 404


async def test_the_live_picture_has_every_target(road, port):
    reply = await call(port, "/tandem/stats")

    assert reply.status == 200
    assert set(reply.json["targets"]) == set(road.plan.targets)
    assert all(target["wait_seconds"] == 0.0 for target in reply.json["targets"].values())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/models", 405),
        ("GET", "/tandem/explain", 405),
        ("GET", "/v1/nowhere", 404),
        ("GET", "/v1/models/../../etc", 404),
        ("GET", "//v1//models", 404),
        ("GET", "/v1/chat/completions/", 404),
        ("GET", "/v1/messages/batches", 404),
    ],
)
async def test_wrong_routes_and_methods_are_refused_as_json_with_their_id(port, method, path, status):
    reply = await call(port, path, method=method)

    assert reply.status == status
    request_id = reply.json.get("request_id") or reply.json["error"]["request_id"]
    assert reply.headers["x-tandem-request-id"] == reply.headers["x-request-id"] == request_id
    assert ("connection" in reply.headers) is (method == "POST")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/v1/models", "GET"),
        ("PUT", "/v1/models/auto", "GET"),
        ("GET", "/tandem/explain", "POST"),
        ("POST", "/healthz", "GET"),
        ("DELETE", "/", "GET, HEAD"),
        ("POST", "/v1/responses/resp_1", "DELETE, GET"),
        ("PATCH", "/responses/resp_1", "DELETE, GET"),
        ("GET", "/v1/responses/resp_1/cancel", "POST"),
        ("DELETE", "/v1/responses/resp_1/input_items", "GET"),
        ("GET", "/v1/chat/completions", "POST"),
        ("HEAD", "/v1/messages", "POST"),
        ("DELETE", "/v1/responses", "POST"),
        ("PUT", "/v1/responses/compact", "POST"),
        ("OPTIONS", "/responses/input_tokens", "POST"),
    ],
)
async def test_a_wrong_method_is_told_the_right_ones(port, method, path, allowed):
    reply = await call(port, path, method=method)

    assert (reply.status, reply.headers["allow"]) == (405, allowed)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("HEAD", "/"),
        ("GET", "/v1/models"),
        ("GET", "/v1/models/auto"),
        ("GET", "/tandem/decisions/req_none"),
        ("GET", "/v1/responses/resp_none"),
        ("DELETE", "/v1/chat/completions"),
        ("GET", "/nowhere"),
    ],
)
async def test_every_answer_of_our_own_has_the_requests_id_by_each_name_that_clients_read(port, method, path):
    reply = await call(port, path, method=method)

    ids = [reply.headers[name] for name in ("x-tandem-request-id", "x-request-id", "request-id")]
    assert ids[0].startswith("req_")
    assert ids == ids[:1] * 3


async def test_a_defect_is_a_500_without_details(road, port):
    async def broken(arrival):
        raise RuntimeError("a secret")

    road.explain = broken
    reply = await call(port, "/tandem/explain", chat())

    assert (reply.status, reply.json["error"]["code"]) == (500, "internal_error")
    assert b"secret" not in reply.body


@pytest.mark.parametrize("path", ["/", "/api/hello"])
async def test_probes_of_clients_are_answered(port, path):
    assert (await call(port, path, method="HEAD")).status == 200
    assert (await call(port, path)).status == 200


async def test_readiness_ends_when_the_router_is_shutting_down():
    is_ready = True
    async with running_edge(FakeRoad(), lambda: is_ready) as (port, _):
        ready = await call(port, "/readyz")
        is_ready = False
        stopping = await call(port, "/readyz")
        alive = await call(port, "/healthz")

    assert (ready.status, stopping.status, alive.status) == (200, 503, 200)


@pytest.mark.parametrize(
    ("path", "is_logged"), [("/favicon.ico", False), ("/.well-known/appspecific/x.json", False), ("/x", True)]
)
async def test_what_a_browser_asks_for_by_itself_is_refused_and_not_logged(port, monkeypatch, path, is_logged):
    logged = []
    monkeypatch.setattr(events, "request_rejected", lambda **fields: logged.append(fields))

    reply = await call(port, path)

    assert (reply.status, reply.json["error"]["code"], bool(logged)) == (404, "not_found", is_logged)


async def test_quotas_are_shown_with_what_is_used_and_how_many_wait(road, port):
    assert (await call(port, "/tandem/stats")).json["quotas"] == {}
    road.plan = FakePlan(targets={"spark": make_target(quota=Quota(requests_per_minute=60))})

    shown = await call(port, "/tandem/stats")

    assert shown.json["quotas"]["spark"]["requests_per_minute"] == {"used": 0, "limit": 60}
    assert shown.json["quotas"]["spark"]["waiting"] == 0
