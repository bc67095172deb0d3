"""The page over bare sockets: other sites, forged logins, hostile names, outside probes (rows D1 to D4)."""

from urllib.parse import quote

import pytest

from router.contract.keys import make_key
from router.edge.logins import COOKIE
from router.edge.wrong_keys import MAX_WRONG
from tests.conftest import SIMULATED
from tests.tools.http import Reply, call, chat, request_bytes
from tests.tools.keyed import KEYS, Callers
from tests.tools.raw import Caller

PAGE = {"x-tandem-page": "1"}
WRITES = {
    "/tandem/login": {"key": "tdm_0"},
    "/tandem/logout": {},
    "/tandem/wrong/req_1": {"tier": "deep"},
    "/tandem/explain": chat(),
    "/tandem/reload": {},
    "/v1/chat/completions": chat(),
}
READS = ("/", "/tandem/stats", "/tandem/decisions/req_1", "/v1/models", "/healthz")
ELSEWHERE = {
    "another origin": {"origin": "https://elsewhere.example"},
    "another port": {"origin": "http://127.0.0.1:9"},
    "no origin at all": {"origin": "null"},
    "another site": {"sec-fetch-site": "cross-site"},
    "a neighbouring site": {"sec-fetch-site": "same-site"},
    "our own name, and another site": {"origin": "http://127.0.0.1", "sec-fetch-site": "cross-site"},
}
A_LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "accept": "text/html"}
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain")
FORM_PATHS = ("/tandem/login", "/tandem/wrong/req_1", "/tandem/explain", "/tandem/reload")
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "=cmd|'/c calc'!A1",
    "\u202eevil",
    "'; DROP TABLE entries; --",
)

NO_LOGINS = (
    "",
    f"{COOKIE}=",
    f"{COOKIE}={'a' * 43}",
    f"{COOKIE}=../../etc/passwd",
    f"{COOKIE}=%00%0d%0a",
    f'{COOKIE}="quoted"',
    f"{COOKIE}={'k' * 6_000}",
    f"{COOKIE}=\xff\xfe",
    "; ; ;",
)


@pytest.fixture
def callers(tmp_path):
    return Callers(tmp_path, ada={"admin": True, "may_force": ["fast", "deep"]}, bob={})


@pytest.fixture
async def keyed(start, callers):
    return await start(KEYS + SIMULATED)


@pytest.fixture
async def local(start):
    return await start(SIMULATED)


async def ask(port: int, raw: bytes) -> Reply:
    async with Caller(port) as caller:
        await caller.send(raw)
        return await caller.reply(30)


async def log_in(tandem, callers, name: str) -> dict[str, str]:
    key = callers[name]["authorization"].removeprefix("Bearer ")
    reply = await call(tandem.port, "/tandem/login", {"key": key}, PAGE)
    return {"cookie": reply.headers["set-cookie"].partition(";")[0]}


def has_cors(reply: Reply) -> bool:
    return any(name.startswith("access-control-") for name in reply.headers)


@pytest.mark.parametrize("headers", ELSEWHERE.values(), ids=ELSEWHERE)
async def test_d1_another_site_is_refused_and_told_nothing(local, headers):
    for path in (*WRITES, *READS):
        reply = await ask(local.port, request_bytes(path, WRITES.get(path), headers))
        assert (path, reply.status, has_cors(reply)) == (path, 403, False)


async def test_a_link_to_the_page_may_be_followed_from_anywhere_and_nothing_else(local):
    framed = {**A_LINK, "sec-fetch-dest": "iframe"}

    assert (await ask(local.port, request_bytes("/", headers=A_LINK))).status == 200
    assert (await ask(local.port, request_bytes("/", headers=framed))).status == 403
    for path in READS[1:]:
        assert (path, (await ask(local.port, request_bytes(path, headers=A_LINK))).status) == (path, 403)


async def test_d1_another_site_is_refused_with_the_cookie_and_the_header_of_the_page(keyed, callers):
    cookie = await log_in(keyed, callers, "ada")

    for path in (path for path in WRITES if path.startswith("/tandem/")):
        for name, headers in ELSEWHERE.items():
            reply = await ask(keyed.port, request_bytes(path, WRITES[path], {**cookie, **PAGE, **headers}))
            assert (path, name, reply.status, has_cors(reply)) == (path, name, 403, False)


@pytest.mark.parametrize("media_type", FORMS)
async def test_d1_a_form_is_refused_even_from_a_browser_that_names_no_origin(keyed, callers, media_type):
    cookie = await log_in(keyed, callers, "ada")

    for path in FORM_PATHS:
        form = request_bytes(path, b"key=tdm_1&input=hello&tier=deep", {"content-type": media_type, **cookie})
        assert (path, (await ask(keyed.port, form)).status) in ((path, 403), (path, 415))


@pytest.mark.parametrize("media_type", FORMS)
async def test_d1_a_form_is_refused_without_keys_too(local, media_type):
    for path in FORM_PATHS:
        form = request_bytes(path, b"key=tdm_1&input=hello&tier=deep", {"content-type": media_type})
        assert (path, (await ask(local.port, form)).status) in ((path, 403), (path, 415))


async def test_d1_a_preflight_gets_no_consent(local):
    headers = {"access-control-request-method": "POST", "access-control-request-headers": "x-tandem-page"}

    for path in ("/tandem/reload", "/tandem/login", "/v1/chat/completions", "/"):
        elsewhere = {**headers, "origin": "https://a.example"}
        foreign = await ask(local.port, request_bytes(path, headers=elsewhere, method="OPTIONS"))
        bare = await ask(local.port, request_bytes(path, headers=headers, method="OPTIONS"))
        assert (foreign.status, has_cors(foreign)) == (403, False)
        assert (bare.status, has_cors(bare)) == (405, False)


async def test_d1_no_page_anywhere_can_spend_money_with_the_cookie(keyed, callers):
    cookie = await log_in(keyed, callers, "ada")

    for path in ("/v1/chat/completions", "/chat/completions", "/v1/responses", "/v1/messages", "/v1/embeddings"):
        reply = await ask(keyed.port, request_bytes(path, chat(), {**cookie, **PAGE}))
        assert reply.status == 401
    for path in ("/tandem/../v1/chat/completions", "/tandem//v1/responses", "/tandem/%2e%2e/v1/messages"):
        reply = await ask(keyed.port, request_bytes(path, chat(), {**cookie, **PAGE}))
        assert reply.status == 404
    assert keyed.admission.in_flight == 0


async def test_d2_hostile_names_come_back_as_json_and_never_as_a_page(local):
    for hostile in HOSTILE:
        for path in ("/v1/chat/completions", "/tandem/explain"):
            reply = await ask(local.port, request_bytes(path, chat(model=hostile)))
            assert reply.headers["content-type"] == "application/json"
            assert reply.json
        for folder in ("/page/", "/tandem/", "/v1/models/"):
            reply = await ask(local.port, request_bytes(folder + quote(hostile)))
            assert (reply.status, reply.headers["content-type"]) == (404, "application/json")


async def test_d3_without_a_valid_login_everything_of_the_page_is_401(keyed):
    for cookie in NO_LOGINS:
        for path in ("/tandem/stats", "/tandem/decisions/req_1"):
            reply = await ask(keyed.port, request_bytes(path, headers={"cookie": cookie}))
            assert (cookie, path, reply.status) == (cookie, path, 401)
        for path in ("/tandem/wrong/req_1", "/tandem/reload"):
            reply = await ask(keyed.port, request_bytes(path, WRITES[path], {"cookie": cookie, **PAGE}))
            assert (cookie, path, reply.status) == (cookie, path, 401)


async def test_d3_two_cookies_of_the_name_are_none(keyed, callers):
    good = (await log_in(keyed, callers, "bob"))["cookie"]

    for cookies in (f"{good}; {COOKIE}=evil", f"{COOKIE}=evil; {good}", f"{good}; {good}"):
        assert (await ask(keyed.port, request_bytes("/tandem/stats", headers={"cookie": cookies}))).status == 401


async def test_d3_a_wrong_key_at_the_login_gets_what_any_wrong_key_gets_and_counts_like_one(keyed):
    wrong = make_key().text

    elsewhere = await ask(keyed.port, request_bytes("/tandem/stats", headers={"x-api-key": make_key().text}))
    refusals = [await call(keyed.port, "/tandem/login", {"key": wrong}, PAGE) for _ in range(MAX_WRONG)]

    def words(reply: Reply) -> str:
        return reply.json["error"]["message"].replace(reply.headers["x-tandem-request-id"], "ID")

    assert {reply.status for reply in refusals[: MAX_WRONG - 1]} == {401}
    assert {words(reply) for reply in refusals[: MAX_WRONG - 1]} == {words(elsewhere)}
    assert refusals[-1].status == 429
    assert int(refusals[-1].headers["retry-after"]) > 0
    assert all("set-cookie" not in reply.headers for reply in refusals)
    assert wrong not in "".join(reply.body.decode() for reply in refusals)


async def test_d3_a_valid_key_logs_in_from_an_address_that_sent_too_many_wrong_ones(keyed, callers):
    for _ in range(MAX_WRONG + 1):
        await call(keyed.port, "/tandem/login", {"key": make_key().text}, PAGE)

    cookie = await log_in(keyed, callers, "bob")

    assert (await ask(keyed.port, request_bytes("/tandem/stats", headers=cookie))).status == 200


async def test_d3_no_log_line_holds_a_key_or_a_cookie(keyed, callers, listen):
    read_log = listen()
    key = callers["bob"]["authorization"].removeprefix("Bearer ")

    cookie = (await log_in(keyed, callers, "bob"))["cookie"].partition("=")[2]
    await call(keyed.port, "/tandem/login", {"key": make_key().text}, PAGE)
    await call(keyed.port, "/tandem/login", b'{"key": "' + key.encode(), PAGE)

    written = str(read_log())
    assert "key.refused" in written
    assert key.split("_", 2)[2] not in written
    assert cookie not in written


async def test_d4_probes_say_nothing_but_their_state(keyed):
    live = await ask(keyed.port, request_bytes("/healthz"))
    ready = await ask(keyed.port, request_bytes("/readyz"))

    assert (live.status, live.json) == (200, {"status": "ok"})
    assert (ready.status, ready.json) == (200, {"status": "ready"})


async def test_d4_with_keys_coming_from_loopback_opens_nothing(keyed, callers):
    for path in ("/metrics", "/tandem/stats", "/tandem/feed", "/tandem/turns"):
        assert (await ask(keyed.port, request_bytes(path))).status == 401
    login = await log_in(keyed, callers, "ada")
    assert (await ask(keyed.port, request_bytes("/metrics", headers=login))).status == 401


async def test_d4_without_keys_only_loopback_names_are_answered(local):
    for path in ("/metrics", "/healthz", "/", "/tandem/stats"):
        raw = request_bytes(path).replace(b"host: 127.0.0.1", b"host: router.example")
        assert (await ask(local.port, raw)).status == 403
