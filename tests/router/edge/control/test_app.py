"""What carries the panels: wrong routes, ids, defects."""

import pytest

from router.contract.caller import LOCAL
from router.contract.rights import EVERYTHING, Rights
from router.edge.control.app import build_control
from router.edge.control.panel import Page, as_json
from router.telemetry import events
from tests.tools.http import call, chat


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


@pytest.mark.parametrize(
    ("path", "is_logged"), [("/favicon.ico", False), ("/.well-known/appspecific/x.json", False), ("/x", True)]
)
async def test_what_a_browser_asks_for_by_itself_is_refused_and_not_logged(port, monkeypatch, path, is_logged):
    logged = []
    monkeypatch.setattr(events, "request_rejected", lambda **fields: logged.append(fields))

    reply = await call(port, path)

    assert (reply.status, reply.json["error"]["code"], bool(logged)) == (404, "not_found", is_logged)


class Secrets:
    """A panel with a page for admins."""

    def __init__(self) -> None:
        self.pages = (Page("/tandem/secrets", self._show, needs_admin=True),)

    async def _show(self, asked):
        return as_json({"rights": asked.rights.is_admin})


@pytest.mark.parametrize(("rights", "status"), [(EVERYTHING, 200), (Rights(), 403)])
async def test_a_page_for_admins_is_refused_to_others_with_the_name_of_the_right(rights, status):
    app, sent = build_control([Secrets()], lambda caller, key: rights), []
    state = {"request_id": "req_1", "caller": LOCAL, "headers": {}, "key": None}
    scope = {"type": "http", "method": "GET", "path": "/tandem/secrets", "headers": [], "query_string": b"", "state": state}

    await app(scope, lambda: None, lambda message: _keep(sent, message))

    assert sent[0]["status"] == status
    assert (b"the right admin" in sent[1]["body"]) is (status == 403)


async def _keep(sent, message):
    sent.append(message)
