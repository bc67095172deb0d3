"""`POST /tandem/login` and `/tandem/logout`: who is let in, and what the cookie is good for."""

import pytest

from router.contract.keys import make_key
from router.edge.logins import COOKIE
from tests.conftest import SIMULATED
from tests.tools.certificates import TLS, client_context, write_pair
from tests.tools.http import call, chat
from tests.tools.keyed import KEYS, Callers, swap

LOGIN, LOGOUT, STATS = "/tandem/login", "/tandem/logout", "/tandem/stats"
PAGE = {"x-tandem-page": "1"}


@pytest.fixture
def callers(tmp_path):
    return Callers(tmp_path, ada={"admin": True}, bob={})


@pytest.fixture
async def tandem(start, callers):
    return await start(KEYS + SIMULATED)


def key_of(callers, name: str = "bob") -> str:
    return callers[name]["authorization"].removeprefix("Bearer ")


async def log_in(tandem, callers, name: str = "bob", **more) -> dict[str, str]:
    """Log in, and return the header that the browser sends from then on."""
    reply = await call(tandem.port, LOGIN, {"key": key_of(callers, name)}, {**PAGE, **more.pop("headers", {})}, **more)
    assert reply.status == 200, reply.body
    return {"cookie": reply.headers["set-cookie"].partition(";")[0]}


async def test_a_key_is_taken_once_and_its_owner_known_by_a_cookie_from_then_on(tandem, callers):
    cookie = await log_in(tandem, callers)

    own = await call(tandem.port, STATS, headers=cookie)

    assert (own.status, own.json["caller"]) == (200, "bob")
    assert "callers" in (await call(tandem.port, STATS, headers=await log_in(tandem, callers, "ada"))).json


async def test_the_answer_names_the_caller_and_is_not_kept_by_anybody(tandem, callers):
    key = key_of(callers)

    reply = await call(tandem.port, LOGIN, {"key": f" {key} "}, PAGE)

    assert reply.json == {"caller": "bob", "expires_in": 43_200}
    assert reply.headers["cache-control"] == "no-store"
    assert key not in reply.headers["set-cookie"]
    for flag in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"):
        assert f"; {flag}" in reply.headers["set-cookie"]
    assert "Secure" not in reply.headers["set-cookie"]


async def test_the_cookie_is_secure_over_tls_and_where_the_browser_says_that_it_uses_tls(start, callers, tmp_path):
    write_pair(tmp_path)
    secure = await start(KEYS + SIMULATED + TLS)

    direct = await call(secure.port, LOGIN, {"key": key_of(callers)}, PAGE, tls=client_context())

    assert direct.headers["set-cookie"].endswith("; Secure")


async def test_the_cookie_is_secure_behind_a_proxy_that_ends_tls(tandem, callers):
    reply = await call(tandem.port, LOGIN, {"key": key_of(callers)}, {**PAGE, "origin": "https://127.0.0.1"})

    assert reply.headers["set-cookie"].endswith("; Secure")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions", "/v1/responses", "/v1/models", "/v1/files"])
async def test_the_cookie_opens_nothing_outside_of_the_page(tandem, callers, path):
    cookie = await log_in(tandem, callers, "ada")
    body = None if path in ("/v1/models", "/v1/files") else chat()

    assert (await call(tandem.port, path, body, {**cookie, **PAGE})).status == 401


async def test_a_write_with_a_cookie_needs_the_header_of_the_page(tandem, callers):
    cookie = await log_in(tandem, callers, "ada")

    bare = await call(tandem.port, "/tandem/explain", chat(), cookie)
    paged = await call(tandem.port, "/tandem/explain", chat(), {**cookie, **PAGE})
    keyed = await call(tandem.port, "/tandem/explain", chat(), callers["ada"])

    assert (bare.status, paged.status, keyed.status) == (403, 200, 200)
    assert "x-tandem-page: 1" in bare.json["error"]["message"]


async def test_logging_in_and_out_needs_that_header_too(tandem, callers):
    assert (await call(tandem.port, LOGIN, {"key": key_of(callers)})).status == 403
    assert (await call(tandem.port, LOGOUT, b"")).status == 403


async def test_logging_out_ends_the_login_and_the_cookie(tandem, callers):
    cookie = await log_in(tandem, callers)

    left = await call(tandem.port, LOGOUT, b"", {**cookie, **PAGE})

    assert (left.status, left.headers["set-cookie"].partition(";")[0]) == (200, f"{COOKIE}=")
    assert "Max-Age=0" in left.headers["set-cookie"]
    assert (await call(tandem.port, STATS, headers=cookie)).status == 401
    assert (await call(tandem.port, LOGOUT, b"", {**cookie, **PAGE})).status == 200


async def test_a_login_ends_as_soon_as_its_key_is_revoked(tandem, callers):
    cookie = await log_in(tandem, callers)
    callers.write(ada={"admin": True})

    swap(tandem, KEYS + SIMULATED)

    assert (await call(tandem.port, STATS, headers=cookie)).status == 401


async def test_a_new_login_ends_the_one_before_it_in_the_same_browser(tandem, callers):
    first = await log_in(tandem, callers)

    second = await log_in(tandem, callers, headers=first)

    assert first != second
    assert (await call(tandem.port, STATS, headers=first)).status == 401
    assert (await call(tandem.port, STATS, headers=second)).status == 200


async def test_an_id_that_the_browser_brings_is_not_taken_over(tandem, callers):
    fixed = {"cookie": f"{COOKIE}={'a' * 43}"}

    cookie = await log_in(tandem, callers, headers=fixed)

    assert cookie != fixed
    assert (await call(tandem.port, STATS, headers=fixed)).status == 401


async def test_a_key_that_comes_along_counts_more_than_the_cookie(tandem, callers):
    cookie = await log_in(tandem, callers, "ada")

    both = await call(tandem.port, STATS, headers={**cookie, **callers["bob"]})
    wrong = await call(tandem.port, STATS, headers={**cookie, "x-api-key": make_key().text})

    assert both.json["caller"] == "bob"
    assert wrong.status == 401


async def test_the_cookie_works_behind_a_proxy_that_asks_for_a_password(tandem, callers):
    cookie = await log_in(tandem, callers)

    assert (await call(tandem.port, STATS, headers={**cookie, "authorization": "Basic Ym9iOnBhc3M="})).status == 200


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ({}, {}, 400),
        ({"key": 7}, {}, 400),
        ({"key": None}, {}, 400),
        (b"[]", {}, 400),
        (b"", {}, 400),
        (b"key=tdm_1", {"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"key": "k" * 5_000}, {}, 413),
        ({"key": ""}, {}, 401),
    ],
)
async def test_what_is_not_a_key_is_refused_as_elsewhere(tandem, body, headers, status):
    assert (await call(tandem.port, LOGIN, body, {**PAGE, **headers})).status == status


async def test_there_is_no_login_where_no_key_is_needed(start):
    tandem = await start(SIMULATED)

    reply = await call(tandem.port, LOGIN, {"key": make_key().text}, PAGE)

    assert (reply.status, "set-cookie" in reply.headers) == (404, False)


async def test_the_files_of_the_page_and_its_form_need_no_key(tandem):
    assert (await call(tandem.port, "/")).status == 200
    assert (await call(tandem.port, "/page/nothing-of-this-name")).status == 404
    assert (await call(tandem.port, "/pages")).status == 401
