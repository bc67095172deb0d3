"""What is known of a plan belongs to its login: windows, refusals and money."""

import asyncio
import time

import pytest

from tests.tools.http import call
from tests.tools.logins import ACCOUNT, chatgpt_login, claude_login
from tests.tools.speech import Speech, speak, write_whole
from tests.tools.upstream import Upstream, answer_json

DEEP = {"x-tandem-tier": "deep"}
MESSAGES = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
RESPONSES = {"model": "gpt-6.1-sol", "input": "hi"}
CLIENTS = {
    "Claude Code": ("claude", "/v1/messages", MESSAGES, claude_login),
    "Codex": ("chatgpt", "/v1/responses", RESPONSES, chatgpt_login),
}
each_client = pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
PRICE = "price: {input: 10, output: 50}"


class Vendor(Upstream):
    """Plays a plan for each login: how much of its windows is used, in per cent, and until when they last."""

    def __init__(self, dialect: str) -> None:
        super().__init__()
        self.dialect = dialect
        self.used: dict[str, tuple[float, float]] = {}
        self.resets_at = int(time.time()) + 5_400
        self.scripts = [self._answer]

    async def _answer(self, wire, seen) -> None:
        five_hours, week = self.used.get(seen.headers["authorization"], (10, 10))
        told = self._report(five_hours, week)
        if five_hours < 100:
            await answer_json(write_whole(self.dialect, Speech("hi")), headers=told)(wire, seen)
        elif self.dialect == "messages":
            await answer_json({"type": "error", "error": {"type": "rate_limit_error", "message": "of the plan"}}, 429, told)(
                wire, seen
            )
        else:
            error = {"type": "usage_limit_reached", "message": "of the plan", "resets_at": self.resets_at}
            await answer_json({"error": error}, 429, told)(wire, seen)

    def _report(self, five_hours: float, week: float) -> dict[str, str]:
        until, later = str(self.resets_at), str(self.resets_at + 300_000)
        if self.dialect == "responses":
            own = {"primary": (five_hours, 300, until), "secondary": (week, 10_080, later)}
            names = ("used-percent", "window-minutes", "reset-at")
            return {
                f"x-codex-{part}-{name}": str(value) for part, of in own.items() for name, value in zip(names, of, strict=True)
            }
        status = "rejected" if five_hours >= 100 else "allowed"
        told = {"status": status, "reset": until, "representative-claim": "five_hour"}
        told |= {
            "5h-utilization": str(five_hours / 100),
            "5h-reset": until,
            "7d-utilization": str(week / 100),
            "7d-reset": later,
        }
        return {f"anthropic-ratelimit-unified-{name}": value for name, value in told.items()}


@pytest.fixture
async def vendors():
    servers = {"claude": Vendor("messages"), "chatgpt": Vendor("responses"), "spark": Upstream(), "spare": Upstream()}
    for name, server in servers.items():
        await server.start()
        if name in ("spark", "spare"):
            server.scripts = [speak("chat", Speech("hi"))]
    yield servers
    for server in servers.values():
        await server.stop()


def config_of(vendors, *deep: str, plan: str = "", extra: str = "") -> str:
    own = f"api_key: caller, billing: plan, {PRICE}{plan}"
    blocks = {
        "claude": f'adapter: anthropic_http, base_url: "{vendors["claude"].base_url}", model: claude-opus-5-5, {own}',
        "chatgpt": f'dialect: responses, base_url: "{vendors["chatgpt"].base_url}", model: gpt-6.1-sol, {own}',
        "spare": f'dialect: chat, base_url: "{vendors["spare"].base_url}", model: big, api_key: spare-key, {PRICE}',
    }
    listed = "\n".join(f"      - {{name: {name}, window_tokens: 400000, {blocks[name]}}}" for name in deep)
    fast = f'dialect: chat, base_url: "{vendors["spark"].base_url}", model: small, api_key: spark-key'
    return f"""
ledger: {{path: test.db}}
models: {{auto: auto, fast: fast, deep: deep, "*": auto}}
tiers:
  fast: {{targets: [{{name: spark, {fast}, price: {{input: 1, output: 2}}}}]}}
  deep:
    targets:
{listed}
{extra}
"""


def asked_by(server: Upstream, login: dict[str, str]) -> int:
    return sum(seen.headers["authorization"] == login["authorization"] for seen in server.seen)


@each_client
async def test_one_persons_exhausted_plan_shuts_nobody_else_out(start, vendors, client):
    own, path, body, login = client
    vendors[own].used[login("ada")["authorization"]] = (100, 40)
    tandem = await start(config_of(vendors, own, "spare"))

    replies = [await call(tandem.port, path, body, login(person) | DEEP) for person in ("ada", "bob", "ada", "bob", "ada")]

    assert [reply.headers["x-tandem-target"] for reply in replies] == ["spare", own, "spare", own, "spare"]
    assert asked_by(vendors[own], login("ada")) == 1
    at = time.strftime("%H:%M", time.localtime(vendors[own].resets_at + 30))
    words = f"your plan's 5-hour window is used up until {at}, so spare answers"
    assert [reply.headers["x-tandem-because"].startswith(words) for reply in replies] == [True, False, True, False, True]


@each_client
async def test_an_exhausted_plan_without_a_spare_answers_in_its_own_words_and_is_not_asked_again(start, vendors, client):
    own, path, body, login = client
    vendors[own].used[login("ada")["authorization"]] = (100, 40)
    tandem = await start(config_of(vendors, own))

    replies = [await call(tandem.port, path, body, login("ada") | DEEP) for _ in range(3)]

    assert [reply.status for reply in replies] == [429] * 3
    assert asked_by(vendors[own], login("ada")) == 1
    assert {reply.body for reply in replies} == {replies[0].body}
    assert replies[0].json["error"]["message"] == "of the plan"
    told = "anthropic-ratelimit-unified-status" if own == "claude" else "x-codex-primary-used-percent"
    assert [reply.headers[told] for reply in replies] == ["rejected" if own == "claude" else "100"] * 3
    assert (await call(tandem.port, path, body, login("bob") | DEEP)).status == 200


@each_client
async def test_a_turn_that_nobody_forced_goes_to_fast_while_the_plan_is_used_up(start, vendors, client):
    own, path, body, login = client
    vendors[own].used[login("ada")["authorization"]] = (100, 40)
    tandem = await start(config_of(vendors, own))
    hard = {**body, **({"input": HARD} if "input" in body else {"messages": [{"role": "user", "content": HARD}]})}
    await call(tandem.port, path, body, login("ada") | DEEP)

    reply = await call(tandem.port, path, hard, login("ada"))

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "spark")
    assert ", so spark answers: " in reply.headers["x-tandem-because"]


HARD = "Redesign the storage layer of this service across all modules, migrate the data, and update every test for it."


@each_client
async def test_two_hundred_people_have_two_hundred_plans(start, vendors, client):
    own, path, body, login = client
    people = [f"person-{number}" for number in range(200)]
    vendors[own].used = {login(person)["authorization"]: (100, 40) for person in people[::2]}
    tandem = await start(config_of(vendors, own, "spare"))

    for _ in range(2):
        for begin in range(0, 200, 20):
            asked = [call(tandem.port, path, body, login(person) | DEEP) for person in people[begin : begin + 20]]
            replies = await asyncio.gather(*asked)
            assert [reply.headers["x-tandem-target"] for reply in replies] == ["spare", own] * 10

    assert [asked_by(vendors[own], login(person)) for person in people] == [1, 2] * 100


@each_client
async def test_a_share_of_the_window_is_kept_for_the_person(start, vendors, client):
    own, path, body, login = client
    vendors[own].used[login("ada")["authorization"]] = (91, 40)
    tandem = await start(config_of(vendors, own, "spare", plan=", use_up_to: {five_hours: 90, week: 95}"))

    replies = [await call(tandem.port, path, body, login("ada") | DEEP) for _ in range(2)]

    assert [reply.headers["x-tandem-target"] for reply in replies] == [own, "spare"]
    assert replies[1].headers["x-tandem-because"].startswith("91 % of your plan's 5-hour window is used (use_up_to) until ")


async def test_where_nothing_else_can_serve_the_rest_of_the_window_is_used(start, vendors):
    vendors["claude"].used[claude_login("ada")["authorization"]] = (91, 40)
    tandem = await start(config_of(vendors, "claude", plan=", use_up_to: {five_hours: 90}"))

    replies = [await call(tandem.port, "/v1/messages", MESSAGES, claude_login("ada") | DEEP) for _ in range(2)]

    assert [reply.headers["x-tandem-target"] for reply in replies] == ["claude"] * 2


@each_client
async def test_a_day_on_a_plan_costs_no_dollars_and_its_list_value_is_kept_apart(start, vendors, client):
    own, path, body, login = client
    tandem = await start(config_of(vendors, own, "spare"))

    for _ in range(3):
        await call(tandem.port, path, body, login("ada") | DEEP)
    await call(tandem.port, path, body, {**login("ada"), "x-tandem-tier": "fast"})
    rows = [[row[name] for name in ("target", "cost_usd", "billing", "list_usd")] for row in await tandem.entries(4)]
    savings = (await call(tandem.port, "/tandem/savings", None, login("ada"))).json
    turns = (await call(tandem.port, "/tandem/turns", None, login("ada"))).json["turns"]

    listed, paid = (90 * 10 + 12 * 50) / 1e6, (90 * 1 + 12 * 2) / 1e6
    assert rows == [[own, 0.0, "plan", pytest.approx(listed)]] * 3 + [["spark", pytest.approx(paid), None, None]]
    assert savings["spent"]["usd"] == pytest.approx(paid)
    assert savings["list_usd"] == pytest.approx(3 * listed)
    assert f"worth ${3 * listed:.3f} at list price" in savings["sentence"]
    assert [(turn["billing"], turn["cost_usd"]) for turn in turns][1:] == [("plan", 0.0)] * 3


async def test_nothing_of_a_login_is_in_what_a_plan_leaves_behind(start, vendors, tmp_path):
    vendors["chatgpt"].used[chatgpt_login("ada")["authorization"]] = (100, 40)
    tandem = await start(config_of(vendors, "chatgpt", "spare"))

    await call(tandem.port, "/v1/responses", RESPONSES, chatgpt_login("ada") | DEEP)
    shown = [
        await call(tandem.port, path, None, chatgpt_login("ada")) for path in ("/tandem/stats", "/tandem/notices", "/metrics")
    ]
    await tandem.entries()

    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    for text in (kept, *(reply.body for reply in shown)):
        assert b"canary" not in text
        assert ACCOUNT.encode() not in text


@each_client
async def test_a_used_up_plan_is_a_notice_for_its_own_person(start, vendors, client):
    own, path, body, login = client
    vendors[own].used[login("ada")["authorization"]] = (100, 40)
    tandem = await start(config_of(vendors, own, "spare"))
    for person in ("ada", "bob", "ada"):
        await call(tandem.port, path, body, login(person) | DEEP)

    notices = (await call(tandem.port, "/tandem/notices", None, login("ada"))).json["notices"]

    assert [(notice["kind"], notice["text"].split(" until ")[0]) for notice in notices] == [
        ("plan_used_up", f"{own}: your plan's 5-hour window is used up")
    ]
