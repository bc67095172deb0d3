"""What every adapter must hold to, whoever wrote it. It finds them by itself; nobody edits this to let a newcomer in.

What an adapter cannot promise by its nature it declares on its class (`is_model`, `relays_bytes`), and is then held to what
takes that promise's place.
"""

import asyncio
import importlib.util
import json

import pytest
from pydantic import ValidationError

from adapters.openai_http import OpenAiHttpAdapter
from router.config.settings import field_notes
from router.contract.errors import (
    CallerKey,
    UpstreamCut,
    UpstreamError,
    UpstreamMalformed,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from router.contract.relay import Adapter, AdapterSettings, Endpoint, OutgoingRequest, Warmable
from router.contract.secret import Secret
from router.contract.target import Timeouts
from router.contract.words import Dialect
from router.upstream.pool import Pool
from router.wiring.registry import ADAPTERS
from tests.tools.exchanges import RecordingSink
from tests.tools.ports import silent_port
from tests.tools.upstream import (
    CHAT_ANSWER,
    CHAT_STREAM_HEAD,
    DONE,
    GOOD_CHAT_STREAM,
    answer_json,
    chat_frame,
    silent,
    stream,
)
from tests.tools.values import make_target, make_view
from tests.tools.waiting import by_the_clock, some_turns, until, until_steady

KEY, MODEL = "key-of-the-target", "openai/some-model"
CALLERS_HEADERS = {
    "authorization": "Bearer callers-secret",
    "x-api-key": "callers-secret",
    "cookie": "callers-secret",
    "x-tandem-session": "callers-session",
    "x-forwarded-for": "callers-address",
    "x-anything": "callers-own",
}
BODIES = {
    Dialect.CHAT: lambda words: {"messages": [{"role": "user", "content": words}]},
    Dialect.RESPONSES: lambda words: {"input": words},
    Dialect.MESSAGES: lambda words: {"messages": [{"role": "user", "content": words}], "max_tokens": 900},
}
PATIENT = Timeouts(30, 60, 60)
WINDOW_TOKENS = 1_000


def every(*, is_model: bool | None = None, relays_bytes: bool | None = None):
    """All adapters in each of their dialects, or those that declare something of themselves."""
    return [
        # What a vendor's library warns of is not the adapter's to mend.
        pytest.param(
            (adapter, dialect),
            id=f"{name}-{dialect}",
            marks=[pytest.mark.filterwarnings("ignore::DeprecationWarning")] if adapter.library else [],
        )
        for name, adapter in ADAPTERS.items()
        for dialect in sorted(adapter.speaks)
        if is_model in (None, adapter.is_model) and relays_bytes in (None, adapter.relays_bytes)
    ]


ALL = pytest.mark.parametrize("carrier", every(), indirect=True)
MODELS = pytest.mark.parametrize("carrier", every(is_model=True), indirect=True)
RELAYS = pytest.mark.parametrize("carrier", every(is_model=True, relays_bytes=True), indirect=True)
REWRITES = pytest.mark.parametrize("carrier", every(is_model=True, relays_bytes=False), indirect=True)
ANSWERS_ITSELF = pytest.mark.parametrize("carrier", every(is_model=False), indirect=True)
WHOLE_OR_STREAMED = pytest.mark.parametrize("is_streaming", [False, True], ids=["whole", "streamed"])


class Carrier:
    """One adapter in one dialect, pointed at the scripted upstream."""

    def __init__(self, adapter: type[Adapter], dialect: Dialect, base_url: str, pool: Pool) -> None:
        self.adapter, self.dialect, self.base_url, self.pool = adapter, dialect, base_url, pool

    def open(self, sink=None, *, key=KEY, base_url=None, is_streaming=True, words="hello", headers=None, **more):
        endpoint = Endpoint(MODEL, base_url or self.base_url, Secret(key) if key else None)
        built = self.adapter(endpoint, self.adapter.Settings(), self.pool)
        fields = {**BODIES[self.dialect](words), "stream": is_streaming}
        view = make_view(fields, self.dialect, headers)
        body = more.get("body") or json.dumps({**fields, "model": MODEL}).encode()
        target = make_target(
            timeouts=more.get("timeouts", PATIENT), speaks=frozenset({self.dialect}), window_tokens=WINDOW_TOKENS
        )
        sink = sink or RecordingSink()
        return built.open(OutgoingRequest(view, target, self.dialect, body, more.get("prompt_tokens", 10)), sink), sink

    async def fetch(self, **more) -> RecordingSink:
        _, sink = self.open(**more)
        return await sink.finished(30)


@pytest.fixture(scope="session")
def _ready() -> set[str]:
    """The adapters whose libraries have been loaded."""
    return set()


@pytest.fixture
async def carrier(request, upstream, _ready):
    adapter, dialect = request.param
    if adapter.library and importlib.util.find_spec(adapter.library) is None:
        pytest.skip(f"{adapter.library} is not installed: the adapter {adapter.name} was not tried")
    pool = Pool()
    built = Carrier(adapter, dialect, upstream.base_url, pool)
    if issubclass(adapter, Warmable) and adapter.name not in _ready:
        upstream.scripts = [answer_json(CHAT_ANSWER)]
        adapter(Endpoint(MODEL, upstream.base_url), adapter.Settings(), pool).warm()
        _, sink = built.open(is_streaming=False)
        await sink.finished(110)
        _ready.add(adapter.name)
        upstream.seen.clear()
        upstream.arrived.clear()
    upstream.scripts = [stream(*GOOD_CHAT_STREAM)]
    yield built
    await pool.close()


@pytest.fixture
def closed_port():
    with silent_port() as port:
        yield port


# What it declares.


@pytest.mark.parametrize("name", list(ADAPTERS))
def test_it_declares_itself_under_its_own_name(name):
    adapter = ADAPTERS[name]

    assert Adapter in adapter.__mro__
    assert adapter.name == name
    assert adapter.speaks
    assert adapter.speaks <= set(BODIES)
    assert adapter.__doc__


@pytest.mark.parametrize("name", list(ADAPTERS))
def test_its_options_have_defaults_explain_themselves_and_refuse_unknown_names(name):
    settings = ADAPTERS[name].Settings

    assert issubclass(settings, AdapterSettings)
    assert settings() == settings()
    assert set(settings.model_fields) <= set(field_notes(settings))
    assert settings.model_config["frozen"]
    with pytest.raises(ValidationError, match="no_such_option"):
        settings.model_validate({"no_such_option": 1})


# The order in which a sink is told.


@ALL
@WHOLE_OR_STREAMED
async def test_an_answer_is_announced_started_written_and_ended_once(carrier, upstream, is_streaming):
    upstream.scripts = [stream(*GOOD_CHAT_STREAM) if is_streaming else answer_json(CHAT_ANSWER)]

    call, sink = carrier.open(is_streaming=is_streaming)
    await sink.finished()
    await some_turns()

    assert sink.words == ["feed_from", "start", "write", "end"]
    assert sink.status == 200
    assert dict(sink.headers)["content-type"].startswith("text/event-stream" if is_streaming else "application/json")
    assert all(callable(getattr(part, name)) for part in (call, sink.flow) for name in ("pause", "resume"))


@MODELS
@WHOLE_OR_STREAMED
async def test_names_of_headers_are_in_lower_case(carrier, upstream, is_streaming):
    shouted = {"X-Request-ID": "r1", "X-RateLimit-Remaining-Requests": "9", "Content-Type": "application/json"}
    upstream.scripts = [answer_json({"error": {"message": "no"}}, 429, shouted)]

    sink = await carrier.fetch(is_streaming=is_streaming)

    assert [name for name, _ in sink.headers] == [name.lower() for name, _ in sink.headers]
    assert dict(sink.headers)["x-request-id"] == "r1"


@MODELS
@WHOLE_OR_STREAMED
@pytest.mark.parametrize("status", [400, 401, 404, 413, 429, 500, 503])
async def test_a_refusal_is_an_answer_with_its_status_and_words(carrier, upstream, status, is_streaming):
    upstream.scripts = [answer_json({"error": {"message": "the provider's words"}}, status, {"retry-after": "7"})]

    sink = await carrier.fetch(is_streaming=is_streaming)

    assert sink.words == ["feed_from", "start", "write", "end"]
    assert (sink.status, dict(sink.headers)["retry-after"]) == (status, "7")
    assert b"the provider's words" in sink.body
    assert len(upstream.seen) == 1, "an adapter does not retry"


@ANSWERS_ITSELF
@WHOLE_OR_STREAMED
async def test_one_that_answers_itself_refuses_what_does_not_fit_as_an_answer(carrier, is_streaming):
    sink = await carrier.fetch(is_streaming=is_streaming, prompt_tokens=WINDOW_TOKENS + 1)

    assert sink.words == ["feed_from", "start", "write", "end"]
    assert 400 <= sink.status < 500


# The ways in which it can fail.


async def stops_in_the_middle(wire, seen):
    await wire.send(CHAT_STREAM_HEAD)
    await wire.chunk(chat_frame("a"))
    await silent(wire, seen)


async def hangs_up(wire, seen):
    wire.writer.close()


async def babbles(wire, seen):
    await wire.send(b"this is not HTTP\r\n\r\n")
    wire.writer.close()


@MODELS
@WHOLE_OR_STREAMED
async def test_a_dead_host_is_unreachable(carrier, closed_port, is_streaming):
    sink = await carrier.fetch(base_url=f"http://127.0.0.1:{closed_port}/v1", is_streaming=is_streaming)

    assert sink.words == ["feed_from", "fail"]
    assert isinstance(sink.error, UpstreamUnreachable)


@MODELS
@pytest.mark.parametrize(
    ("script", "kinds", "words"),
    [
        (silent, UpstreamTimeout, ["feed_from", "fail"]),
        (stops_in_the_middle, UpstreamTimeout, ["feed_from", "start", "write", "fail"]),
        (stream(chat_frame("a"), ends=False), UpstreamCut, ["feed_from", "start", "write", "fail"]),
        (hangs_up, UpstreamUnreachable, ["feed_from", "fail"]),
        (babbles, (UpstreamMalformed, UpstreamUnreachable), ["feed_from", "fail"]),
    ],
    ids=["silent", "silent in the middle", "cut", "hangs up", "babbles"],
)
async def test_a_broken_target_becomes_the_right_error(carrier, upstream, script, kinds, words):
    upstream.scripts = [script]

    sink = await carrier.fetch(timeouts=Timeouts(30, 2, 2))
    await some_turns()

    assert sink.words == words
    assert isinstance(sink.error, UpstreamError)
    assert isinstance(sink.error, kinds)
    assert sink.error.target == "spark"
    assert len(upstream.seen) == 1, "an adapter does not retry"


@MODELS
@pytest.mark.parametrize("script", [silent, stops_in_the_middle])
async def test_a_timeout_frees_the_socket(carrier, upstream, script):
    upstream.scripts = [script]

    await carrier.fetch(timeouts=Timeouts(30, 2, 2))

    assert await asyncio.wait_for(upstream.seen[0].left.wait(), 30)


@MODELS
async def test_a_whole_answer_is_waited_for_no_longer_than_the_targets_own_limit(carrier, upstream):
    upstream.scripts = [silent]

    sink = await carrier.fetch(is_streaming=False, timeouts=Timeouts(30, 2, 60, bounds_whole_answers=True))

    assert isinstance(sink.error, UpstreamTimeout)


@ANSWERS_ITSELF
@WHOLE_OR_STREAMED
async def test_one_that_answers_itself_dials_nobody(carrier, upstream, is_streaming):
    sink = await carrier.fetch(is_streaming=is_streaming)

    assert sink.status == 200
    assert upstream.connections == 0


# Cancel, pause, resume.


@MODELS
@pytest.mark.parametrize("script", [silent, stops_in_the_middle], ids=["before the answer", "inside it"])
async def test_cancelling_frees_the_socket_and_nothing_is_heard_after_it(carrier, upstream, script):
    upstream.scripts = [script]
    call, sink = carrier.open()
    await asyncio.wait_for(upstream.arrived.wait() if script is silent else sink.first.wait(), 30)
    before = list(sink.told)

    call.cancel()
    call.cancel()

    await asyncio.wait_for(upstream.seen[0].left.wait(), 30)
    await some_turns()
    assert sink.told == before


@ALL
async def test_a_call_that_is_cancelled_at_once_is_heard_of_no_more(carrier, upstream, closed_port):
    upstream.scripts = [answer_json(CHAT_ANSWER)]

    calls = [carrier.open(base_url=url) for url in (None, f"http://127.0.0.1:{closed_port}/v1")]
    for call, _ in calls:
        call.cancel()
    await some_turns(1_000)

    assert [sink.words for _, sink in calls] == [["feed_from"]] * 2
    assert upstream.seen == []


@ALL
@pytest.mark.parametrize("at", ["start", "write"])
async def test_a_sink_that_cancels_from_inside_hears_nothing_after_it(carrier, at):
    sink, has_hung_up = RecordingSink(), asyncio.Event()

    def hang_up(*given):
        sink.told.append((at,))
        sink.flow.cancel()
        has_hung_up.set()

    setattr(sink, at, hang_up)

    carrier.open(sink)
    await until(lambda: has_hung_up.is_set() or sink.over.is_set())
    await some_turns(1_000)

    assert sink.words[-1] == at, sink.error
    assert [name for name, *_ in sink.told].count(at) == 1


@ALL
async def test_cancelling_an_answer_that_is_over_changes_nothing(carrier):
    call, sink = carrier.open()
    await sink.finished()

    call.cancel()
    await some_turns()

    assert sink.words == ["feed_from", "start", "write", "end"]


@ALL
@pytest.mark.parametrize("at", ["open", "start", "write"])
async def test_pausing_stops_the_bytes_and_resuming_lets_all_of_them_flow(carrier, upstream, at):
    pieces = [chat_frame(f"piece-{number} ") for number in range(60)]
    upstream.scripts = [stream(*pieces, chat_frame(finish="stop"), DONE)]
    sink, paused = RecordingSink(), asyncio.Event()
    tell = getattr(sink, at, None)

    def tell_and_pause(*given):
        tell(*given)
        if not paused.is_set():
            paused.set()
            sink.flow.pause()

    if tell is not None:
        setattr(sink, at, tell_and_pause)

    call, _ = carrier.open(sink)
    if tell is None:
        call.pause()
        paused.set()
    await asyncio.wait_for(paused.wait(), 30)
    before = -1
    while before != len(sink.told):  # pieces that were on their way still come, and without a pause all of them
        before = len(sink.told)
        await by_the_clock(0.05)  # one that answers itself writes by the clock, and a library has threads and timers of its own
        await until_steady(lambda: len(sink.told))

    assert len(sink.told) < 20
    assert not sink.over.is_set()
    call.resume()
    await sink.finished()
    assert sink.error is None
    assert sink.words == ["feed_from", "start", "write", "end"]
    if carrier.adapter.is_model:
        assert all(f"piece-{number} ".encode() in sink.body for number in range(60))


@MODELS
async def test_a_pause_longer_than_the_stall_timeout_is_not_the_targets_fault(carrier, upstream):
    upstream.scripts = [stream(*(chat_frame("x" * 100) for _ in range(50)), chat_frame(finish="stop"), DONE)]
    call, sink = carrier.open(timeouts=Timeouts(2, 5, 0.1))
    await asyncio.wait_for(sink.first.wait(), 30)

    call.pause()
    await by_the_clock(0.2)  # twice as long as it may be silent: only the clock can tell
    call.resume()

    assert (await sink.finished()).error is None


# Keys and headers.


@MODELS
async def test_the_targets_own_key_goes_out_and_what_is_the_callers_does_not(carrier, upstream):
    await carrier.fetch(headers=CALLERS_HEADERS)

    (seen,) = upstream.seen
    assert [name for name, value in seen.headers.items() if KEY in value] in (["authorization"], ["x-api-key"])
    assert "callers-" not in json.dumps(seen.headers) + seen.body.decode()


@MODELS
async def test_a_target_without_a_key_gets_none_of_anybodys(carrier, upstream):
    await carrier.fetch(key=None, headers=CALLERS_HEADERS)

    assert "callers-" not in json.dumps(upstream.seen[0].headers)
    assert KEY not in json.dumps(upstream.seen[0].headers)


@MODELS
async def test_the_callers_key_goes_out_where_the_target_takes_it_and_nothing_else_of_the_callers(carrier, upstream):
    await carrier.fetch(key="caller", headers=CALLERS_HEADERS)

    (seen,) = upstream.seen
    assert [name for name, value in seen.headers.items() if "callers-secret" in value] in (["authorization"], ["x-api-key"])
    assert not any(word in json.dumps(seen.headers) for word in ("callers-session", "callers-address", "callers-own"))


@MODELS
async def test_a_callers_key_that_is_missing_is_refused_before_anything_is_sent(carrier, upstream):
    sink = RecordingSink()

    with pytest.raises(CallerKey):
        carrier.open(sink, key="caller", headers={})

    await some_turns()
    assert (sink.told, upstream.seen) == ([], [])


# What goes out and what comes back.


@RELAYS
async def test_bodies_and_answers_pass_byte_for_byte(carrier, upstream):
    body = b'{ "model":"m",\t"stream" : true, "odd": 1.0, "big": 12345678901234567890, "text": "\\u00e4\xc3\xa4" }\n'

    sink = await carrier.fetch(body=body)

    assert upstream.seen[0].body == body
    assert upstream.seen[0].headers["content-length"] == str(len(body))
    assert sink.body == b"".join(GOOD_CHAT_STREAM)


@REWRITES
async def test_one_that_does_not_relay_bytes_still_carries_the_words_both_ways(carrier, upstream):
    upstream.scripts = [stream(chat_frame("ears"), chat_frame(" too"), chat_frame(finish="stop"), DONE)]

    sink = await carrier.fetch(words="walls have")

    assert "walls have" in upstream.seen[0].body.decode()
    assert sink.body.index(b"ears") < sink.body.index(b" too")


@MODELS
async def test_two_calls_at_once_do_not_mix(carrier, upstream):
    both_asked = asyncio.Event()

    async def echo(wire, seen):
        mine = b"one" if b"ask-one" in seen.body else b"two"
        if len(upstream.seen) == 2:
            both_asked.set()
        await both_asked.wait()
        await wire.send(CHAT_STREAM_HEAD)
        for _ in range(20):
            await wire.chunk(chat_frame(f"answer-{mine.decode()} "))
            await asyncio.sleep(0)
        await wire.chunk(chat_frame(finish="stop") + DONE)
        await wire.end_chunks()

    upstream.scripts = [echo]

    one, two = await asyncio.gather(carrier.fetch(words="ask-one"), carrier.fetch(words="ask-two"))

    assert (one.body.count(b"answer-one"), one.body.count(b"answer-two")) == (20, 0)
    assert (two.body.count(b"answer-one"), two.body.count(b"answer-two")) == (0, 20)


@ANSWERS_ITSELF
async def test_two_answers_of_its_own_at_once_are_both_whole(carrier):
    one, two = await asyncio.gather(carrier.fetch(), carrier.fetch())

    assert one.words == two.words == ["feed_from", "start", "write", "end"]
    assert one.body.count(b"\n\n") == two.body.count(b"\n\n")


# That this suite would notice.


class Between:
    """A sink in front of another, for adapters with one fault."""

    def __init__(self, sink) -> None:
        self._sink = sink

    def __getattr__(self, name):
        return getattr(self._sink, name)


class Forgetful(Between):
    def feed_from(self, flow) -> None:
        pass


class Repetitive(Between):
    def end(self) -> None:
        self._sink.end()
        self._sink.end()


class Shouting(Between):
    def start(self, status, headers) -> None:
        self._sink.start(status, tuple((name.upper(), value) for name, value in headers))


class Talkative(Between):
    def fail(self, error) -> None:
        self._sink.start(502, ())
        self._sink.fail(error)


@pytest.mark.parametrize(
    ("faulty", "claim"),
    [
        (Forgetful, lambda c, u, port: test_an_answer_is_announced_started_written_and_ended_once(c, u, True)),
        (Repetitive, lambda c, u, port: test_an_answer_is_announced_started_written_and_ended_once(c, u, False)),
        (Shouting, lambda c, u, port: test_names_of_headers_are_in_lower_case(c, u, False)),
        (Talkative, lambda c, u, port: test_a_dead_host_is_unreachable(c, port, False)),
    ],
)
async def test_this_suite_notices_an_adapter_with_a_fault(upstream, closed_port, faulty, claim):
    class FaultyAdapter(OpenAiHttpAdapter):
        def open(self, request, sink):
            return super().open(request, faulty(sink))

    pool = Pool()

    with pytest.raises(AssertionError):
        await claim(Carrier(FaultyAdapter, Dialect.CHAT, upstream.base_url, pool), upstream, closed_port)

    await pool.close()
