"""The exact count, for prompts near a limit."""

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from router.contract.exchange import Arrival
from router.contract.words import Dialect, Operation
from router.dialects.histories import NO_HISTORIES, Histories
from router.dialects.requests import read_request
from router.sense import counting_process, exact
from tests.tools.values import ask, make_view
from tests.tools.waiting import later, some_turns, until

pytestmark = pytest.mark.starts

PATIENT_SECONDS = 60.0
"""For tests of what is counted: on a busy machine the real vocabulary alone may take the seconds that a request waits."""


@pytest.fixture
def counter(encoding):
    counter = exact.ExactCounter(pytest.fail, wait_seconds=PATIENT_SECONDS)
    yield counter
    counter.close()


async def test_special_tokens_in_a_prompt_are_plain_text(counter):
    count = await counter.count(ask("<|endoftext|> <|im_start|>system"))

    assert count.is_exact
    assert 8 < count.tokens < 40


async def test_an_exact_count_reads_the_arguments_of_calls(counter):
    arguments = json.dumps({"text": "word " * 3_000})
    call = {"id": "c", "type": "function", "function": {"name": "write", "arguments": arguments}}
    chat = make_view(
        {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": [call]}]}
    )
    used = {"type": "tool_use", "id": "c", "name": "write", "input": {"text": "word " * 3_000}}
    messages = make_view({"max_tokens": 1, "messages": [{"role": "assistant", "content": [used]}]}, Dialect.MESSAGES)

    counts = [await counter.count(view) for view in (chat, messages)]

    assert all(3_000 <= count.tokens <= 3_100 for count in counts)


async def test_an_exact_count_reads_system_tools_and_results(counter):
    body = {
        "max_tokens": 1,
        "system": "word " * 100,
        "tools": [{"name": "x", "description": "word " * 100, "input_schema": {}}],
        "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "word " * 100}]}],
    }

    count = await counter.count(make_view(body, Dialect.MESSAGES))

    assert 300 <= count.tokens <= 340


async def test_without_a_vocabulary_counts_stay_estimates_and_one_warning_says_so(monkeypatch):
    warnings = []
    monkeypatch.setattr(exact, "find_vocabulary", lambda: None)
    counter = exact.ExactCounter(warnings.append)

    assert await counter.count(ask()) is None
    assert await counter.count(ask()) is None

    counter.close()
    assert len(warnings) == 1


def test_a_damaged_vocabulary_is_not_handed_to_a_library_that_would_fetch_another(tmp_path, monkeypatch):
    (tmp_path / "fb374d419588a4632f3f557e76b4b70aebbca790").write_bytes(b"damaged")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))

    assert exact.find_vocabulary() != tmp_path


CHILD = """
import sys, time
from router.sense import counting
questions, answers = sys.stdin.buffer, sys.stdout.buffer
def encode(text):
    {act}
    return [0] * len(text)
{before}
counting.answer(questions, answers, encode)
"""


@pytest.fixture
def child(tmp_path, monkeypatch):
    """A counter whose process runs a program of the test's: what it does before it is ready, and with each text."""
    made: list[exact.ExactCounter] = []
    monkeypatch.setattr(exact, "find_vocabulary", lambda: tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(exact.__file__).parents[2]))

    def make(warn=pytest.fail, before: str = "", act: str = "", **settings) -> exact.ExactCounter:
        program = tmp_path / "child.py"
        program.write_text(CHILD.format(act=act or "pass", before=before))
        made.append(exact.ExactCounter(warn, program=program, **{"later_seconds": 0.0, **settings}))
        return made[-1]

    yield make
    for counter in made:
        counter.close()


def until_there(path: Path) -> str:
    """A line of a child: wait until a file is there."""
    return f"__import__('os').path.exists({str(path)!r}) or time.sleep(0.01)"


async def test_the_loop_runs_on_while_a_prompt_is_counted(child, tmp_path):
    gate = tmp_path / "gate"
    counter = child(act=f"while not {until_there(gate)}: pass")
    counting = asyncio.gather(counter.count(ask("four")))

    await asyncio.sleep(0)
    gate.touch()

    assert [count.tokens for count in await counting] == [len("four") + len("content") + 4]


async def test_while_eight_wait_for_a_count_a_ninth_does_not(child, tmp_path):
    gate = tmp_path / "gate"
    counter = child(act=f"while not {until_there(gate)}: pass", wait_seconds=30)
    counting = asyncio.gather(*(counter.count(ask("x")) for _ in range(8)))
    await asyncio.sleep(0)

    with pytest.raises(TimeoutError):
        await counter.count(ask("x"))

    gate.touch()
    assert all(count.is_exact for count in await counting)
    assert await counter.count(ask("x")) is not None


@pytest.mark.parametrize(("text", "tokens"), [("a" * 300_000, (10_000, 300_000)), (" " * 2_000_000, (15_000, 16_500))])
async def test_300_000_letters_and_two_million_blanks_are_counted(counter, text, tokens):
    assert tokens[0] < (await counter.count(ask(text))).tokens < tokens[1]


async def test_a_text_that_the_tokenizer_cannot_bear_gets_the_estimate_and_costs_no_other_count(child):
    counter = child(act="if text == 'bad': raise BaseException('a panic')")

    assert await counter.count(ask("bad")) is None
    assert not (await counter.count_or_estimate(ask("bad"))).is_exact
    assert (await counter.count(ask("good"))).is_exact


async def test_a_process_that_dies_costs_one_count(child):
    counter = child(act="if text == 'die': __import__('os')._exit(3)")

    assert await counter.count(ask("die")) is None
    assert (await counter.count(ask("live"))).is_exact


async def test_texts_that_cannot_be_read_to_their_end_cost_their_own_count_and_leave_nothing_to_the_next(child, monkeypatch):
    counter = child()
    alone = await counter.count(ask("x"))

    def breaks_off(values):
        yield "some words"
        raise KeyError("text")

    with monkeypatch.context() as patched:
        patched.setattr(exact, "texts_in", breaks_off)
        assert await counter.count(ask("x")) is None

    assert await counter.count(ask("x")) == alone


async def test_a_process_that_died_while_idle_costs_one_count_at_most(child):
    counter = child()
    await counter.count(ask("x"))
    counter._process._process.kill()
    counter._process._process.wait()

    counts = [await counter.count(ask("x")) for _ in range(2)]

    assert counts[1].is_exact


async def test_a_count_that_takes_too_long_is_given_up_and_the_next_one_is_had(child):
    counter = child(act="if text == 'slow': time.sleep(60)", wait_seconds=1.5)

    async with asyncio.timeout(50):
        with pytest.raises(TimeoutError):
            await counter.count(ask("slow"))
    await until(lambda: counter.count(ask("quick")))  # the thread gives up a moment after the request did
    assert (await counter.count(ask("quick"))).is_exact


async def test_a_count_that_is_late_for_its_request_is_still_learned(child, tmp_path):
    gate, learned = tmp_path / "gate", []
    counter = child(act=f"while text == 'slow' and not {until_there(gate)}: pass")
    await counter.count(ask("quick"))

    with pytest.raises(TimeoutError):
        await counter.count(ask("slow"), 0.5, learned.append)  # time for the thread to begin: what is under way goes on
    assert learned == []
    gate.touch()
    await until(lambda: learned)

    assert learned == [len("slow") + len("content") + 4]


async def test_a_request_in_a_hurry_does_not_wait_for_the_vocabulary_and_is_counted_once_that_is_loaded(child, tmp_path):
    gate, learned = tmp_path / "gate", []
    counter = child(before=f"while not {until_there(gate)}: pass")

    with pytest.raises(TimeoutError):
        await counter.count(ask("x"), 4.9, learned.append)
    assert not learned
    gate.touch()
    await until(lambda: learned)

    assert (await counter.count(ask("x"), 4.9)).tokens == learned[0]


async def test_the_vocabulary_is_loaded_in_a_moment_for_requests_that_cannot_wait_and_at_once_for_one_that_can(child, tmp_path):
    counter = child(before=f"open({str(tmp_path / 'loads')!r}, 'a').write('x')", later_seconds=600.0)

    counter.prepare()
    with pytest.raises(TimeoutError):
        await counter.count(ask("x"), 0.02)
    await some_turns()
    await asyncio.to_thread(counter._thread.submit(int).result)  # whatever was given to the thread is done
    assert counter._process is None

    assert (await counter.count(ask("x"))).is_exact
    assert (await counter.count(ask("x"), 4.9)).is_exact
    assert (tmp_path / "loads").read_text() == "x"


async def test_a_vocabulary_that_was_to_be_loaded_when_the_counter_closed_is_not(child):
    counter, faults = child(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))

    counter.prepare()
    counter.close()
    await some_turns()

    assert (counter._process, faults) == (None, [])


async def test_a_counter_that_was_prepared_has_its_vocabulary_loaded_once(child, tmp_path):
    counter = child(before=f"open({str(tmp_path / 'loads')!r}, 'a').write('x')")

    for _ in range(3):
        counter.prepare()
    await until(lambda: counter._is_ready)
    counter.prepare()

    assert (await counter.count(ask("x"), 4.9)).is_exact
    assert (tmp_path / "loads").read_text() == "x"


async def test_preparing_a_process_that_cannot_start_ends_with_one_warning(child):
    warnings = []
    counter = child(warnings.append, before="raise SystemExit(1)")

    await until(lambda: counter.prepare() or warnings, 60)
    counter.prepare()

    assert await counter.count(ask("x"), 0.02) is None
    assert len(warnings) == 1


async def test_a_prepared_process_that_nobody_needs_is_stopped(child):
    counter = child(idle_seconds=0.05)

    counter.prepare()
    await until(lambda: counter._process is not None)
    process = counter._process._process
    await until(lambda: process.poll() is not None)

    assert counter._process is None


async def test_a_process_that_cannot_start_is_tried_three_times_and_then_said_to_be_missing(child):
    warnings = []
    counter = child(warnings.append, before="raise SystemExit(1)")

    counts = [await counter.count(ask("x")) for _ in range(5)]

    assert counts == [None] * 5
    assert warnings == ["the process that counts cannot be started (it died): token counts near a limit are estimates"]


async def test_a_process_that_was_starting_when_the_counter_closed_is_stopped(child, monkeypatch):
    counter, begun, may_end, made = child(), threading.Event(), threading.Event(), []

    class Slow(exact.CountingProcess):
        def __init__(self, *given) -> None:
            begun.set()
            assert may_end.wait(10)
            super().__init__(*given)
            made.append(self._process)

    monkeypatch.setattr(exact, "CountingProcess", Slow)
    counting = later(counter.count(ask("x")))
    await until(begun.is_set)
    counter.close()
    may_end.set()

    assert await counting is None
    assert made[0].poll() is not None


async def test_an_idle_process_is_stopped_and_started_again_on_need(child):
    counter = child(idle_seconds=0.05)
    await counter.count(ask("x"))
    process = counter._process._process

    await until(lambda: process.poll() is not None)

    assert (await counter.count(ask("x"))).is_exact


def test_nothing_is_started_or_loaded_before_the_first_count(child):
    command = [sys.executable, "-c", "import router.wiring.build, sys; print(*sys.modules)"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True)

    assert child()._process is None
    assert "tiktoken" not in loaded.stdout.split()


async def test_of_a_conversation_that_goes_on_only_what_is_new_is_sent_to_be_counted(counter, monkeypatch):
    sent = []
    write = counting_process.write_question
    monkeypatch.setattr(counting_process, "write_question", lambda texts: sent.append(written := write(texts)) or written)
    histories = Histories()
    said = [{"role": ("user", "assistant")[place % 2], "content": f"{place} " + "word " * 400} for place in range(31)]
    steps = [said[:25], said[:27], said, [*said[:26], {"role": "user", "content": "another way"}], said[2:]]

    sizes = []
    for messages in steps:
        raw = json.dumps({"model": "auto", "tools": [{"name": "x"}], "messages": messages}).encode()
        arrival = Arrival("req_1", Dialect.CHAT, Operation.CREATE, {}, raw)
        counts = [await counter.count(read_request(arrival, kept)) for kept in (histories, NO_HISTORIES)]
        assert counts[0] == counts[1]
        sizes.append((sum(map(len, sent[:-1])), len(sent[-1])))
        sent.clear()

    grown, forked, cut = [with_history / whole for with_history, whole in sizes[1:3]], sizes[3], sizes[4]
    assert max(grown) < 0.2
    assert forked[0] < forked[1] / 4
    assert cut[0] > cut[1] * 0.9  # its beginning is another
