"""The screen as an observer of requests."""

import asyncio
import threading

import pytest
from msgspec.structs import replace

from router.contract.entry import Attempt
from router.contract.errors import UnknownModel
from router.contract.facts import AttemptEnded, Dequeued, Ending, FirstToken, Queued, Read, Recorded, Settled
from router.contract.notices import Notice, Trouble
from router.contract.words import Operation, Outcome, Tier, TurnKind
from router.screen.around import Facts
from router.screen.screen import Screen, Totals
from router.screen.text import Style
from router.stores.sqlite.marks import judge_turn
from router.stores.sqlite.past import SqliteEntryReader
from tests.router.past.test_worth import keep
from tests.tools.exchanges import make_decided, make_decision, make_exchange
from tests.tools.kept import LINE, make_entry
from tests.tools.ledgers import write_ledger
from tests.tools.loop_clock import jumping_clock
from tests.tools.terminal import Emulator
from tests.tools.values import ask, make_target
from tests.tools.waiting import some_turns, until

FACTS = Facts("0.3.0", "http://127.0.0.1:4000", ((Tier.FAST, "spark"),), "balanced", "off", "tandem", "tandem init", False)


class Paper:
    """What was drawn, on a terminal that can be held."""

    def __init__(self, columns: int = 140) -> None:
        self.emulator, self.is_busy, self.given = Emulator(columns), False, 0

    @property
    def size(self) -> tuple[int, int]:
        return self.emulator.columns, self.emulator.rows

    def give(self, text: str) -> None:
        self.given += 1
        self.emulator.feed(text)

    close = give

    def lines(self) -> list[str]:
        return [line for line in self.emulator.text() if line]


@pytest.fixture
def paper() -> Paper:
    return Paper()


def make_screen(paper: Paper, **more) -> Screen:
    return Screen(paper, Style(), wall=lambda: 1_000.0, clock=lambda: 1.0, **more)


def end(exchange, name: str = "req_1", **more) -> None:
    line = replace(LINE, **{"id": name, "at": 999.0, "duration_ms": 1_500.0, "tier": Tier.FAST, "because": "x", **more})
    exchange.note(Recorded(replace(make_entry(), line=line)))


async def test_a_call_is_shown_while_it_runs_and_when_it_is_over(paper):
    screen = make_screen(paper)
    screen.open(asyncio.get_running_loop(), FACTS)
    exchange = make_exchange(screen, name="req_1")

    exchange.note(make_decided())
    await until(lambda: any("running" in line for line in paper.lines()))
    exchange.note(FirstToken(0.4, make_target()))
    end(exchange)
    await until(lambda: any("1.5s" in line for line in paper.lines()))

    assert paper.lines()[0].startswith("Tandem 0.3.0")
    assert "0.4s   1.5s" in paper.lines()[-1]
    assert not any("running" in line for line in paper.lines())


async def test_a_call_that_is_recorded_under_another_id_is_over(paper):
    screen = make_screen(paper)
    screen.open(asyncio.get_running_loop(), FACTS)
    exchange = make_exchange(screen, name="req_1")

    exchange.note(make_decided())
    await until(lambda: any("running" in line for line in paper.lines()))
    end(exchange, "req_2")
    await until(lambda: any("1.5s" in line for line in paper.lines()))

    assert not any("running" in line for line in paper.lines())


@jumping_clock
async def test_nothing_is_drawn_while_nothing_happens(paper):
    screen = make_screen(paper)
    screen.open(asyncio.get_running_loop(), FACTS)
    await until(lambda: paper.given == 1)

    await asyncio.sleep(60)

    assert paper.given == 1


@jumping_clock
async def test_the_clock_of_a_running_call_ticks_about_four_times_a_second(paper):
    screen = make_screen(paper)
    screen.open(asyncio.get_running_loop(), FACTS)
    make_exchange(screen).note(make_decided())

    await asyncio.sleep(10)

    assert paper.given == pytest.approx(40, abs=3)


async def test_many_facts_are_one_drawing(paper):
    screen = make_screen(paper)
    screen.open(asyncio.get_running_loop(), FACTS)
    for number in range(200):
        exchange = make_exchange(screen, name=f"req_{number}")
        exchange.note(make_decided())
        end(exchange, f"req_{number}")

    await until(lambda: paper.given > 0)

    assert paper.given == 1


@jumping_clock
async def test_a_terminal_that_is_held_is_not_given_more(paper):
    screen = make_screen(paper)
    paper.is_busy = True
    screen.open(asyncio.get_running_loop(), FACTS)
    make_exchange(screen).note(make_decided())

    await asyncio.sleep(60)
    assert paper.given == 0

    paper.is_busy = False
    await until(lambda: paper.given > 0)


async def test_a_warning_of_another_thread_is_shown_without_its_escapes(paper):
    screen = make_screen(paper)
    screen.open(asyncio.get_running_loop(), FACTS)

    thread = threading.Thread(target=screen.note, args=("ledger failed\x1b[2J",))
    thread.start()
    thread.join()

    await until(lambda: any(line == "ledger failed?[2J" for line in paper.lines()))


async def test_a_refusal_names_its_client_and_the_model(paper):
    screen = make_screen(paper)
    exchange = make_exchange(screen, name="req_9")
    exchange.note(Read(ask("hello", headers={"user-agent": "codex_cli_rs/1", "session-id": "0199-3f2a"})))
    exchange.note(Settled(1.0, Ending(Outcome.REFUSED, 404, UnknownModel("model: unknown", param="model"))))
    end(
        exchange,
        "req_9",
        tier=None,
        session=None,
        client=None,
        outcome=Outcome.REFUSED,
        status=404,
        error="model_not_found",
        model="gpt-9",
    )
    screen.close()

    assert any("codex 3f2a" in line and "404" in line and 'model "gpt-9" is not in models:' in line for line in paper.lines())
    assert paper.lines()[-1] == "no turns, 1 refused"


async def test_a_count_of_tokens_is_no_line(paper):
    screen = make_screen(paper)
    end(make_exchange(screen, operation=Operation.COUNT_TOKENS), tier=None)
    screen.close()

    assert paper.lines() == ["no turns"]


async def test_words_are_shown_only_where_they_are_asked_for(paper):
    quiet = Paper()
    for where, shows in ((paper, True), (quiet, False)):
        screen = make_screen(where, shows_words=shows)
        make_exchange(screen).note(make_decided())
        screen.close()

    assert '"hello" quick edit' in "\n".join(paper.lines())
    assert "hello" not in "\n".join(quiet.lines())


async def test_each_call_is_told_with_its_estimate(paper):
    screen = make_screen(paper, is_each_call=True)
    exchange = make_exchange(screen, name="req_1")
    exchange.note(make_decided(decision=make_decision(score=0.25)))
    exchange.note(AttemptEnded(1.0, make_target(), Attempt("spark", 200, None, 0.1), None, None, None))
    end(exchange)
    screen.close()

    assert "#1" in paper.lines()[1]
    assert "25% long; quick edit" in paper.lines()[1]
    assert paper.lines()[-1].startswith("1 turn, 1 fast")


@jumping_clock
async def test_after_the_end_nothing_is_drawn(paper):
    screen = make_screen(paper)
    screen.open(asyncio.get_running_loop(), FACTS)
    make_exchange(screen).note(make_decided())
    screen.close()
    given = paper.given

    screen.note("late")
    await asyncio.sleep(60)

    assert paper.given == given


async def test_a_call_that_waits_for_a_quota_is_shown_as_queued(paper):
    screen = make_screen(paper)
    screen.open(asyncio.get_running_loop(), FACTS)
    exchange = make_exchange(screen)
    exchange.note(make_decided())
    exchange.note(Queued(0.0, make_target(), 1, 1, 4.0))
    await until(lambda: any("queued" in line for line in paper.lines()))

    exchange.note(Dequeued(1.0, make_target(), 1.0, has_turn=True))

    await until(lambda: any("running" in line for line in paper.lines()))
    screen.close()


async def test_a_refusal_before_admission_is_a_row_and_counts(paper):
    screen = make_screen(paper)
    screen.open(asyncio.get_running_loop(), FACTS)

    screen.watch.reject(403, "this router answers to loopback names only")
    await until(lambda: any("403" in line for line in paper.lines()))

    (row,) = [line for line in paper.lines() if "403" in line]
    assert row.endswith("this router answers to loopback names only")
    assert screen.totals.sentence() == "no turns, 1 refused"


async def test_a_long_warning_is_broken_between_words():
    paper = Paper(60)
    screen = make_screen(paper)
    screen.open(asyncio.get_running_loop(), FACTS)

    screen.note("08:02:06  warning: config warned  " + "word " * 20)
    await until(lambda: any("warning" in line for line in paper.lines()))

    assert all(len(line) <= 60 and not line.endswith("wor") for line in paper.lines())


async def test_a_trouble_is_shown_below_the_turns_as_long_as_it_lasts(paper):
    notices = [Notice(Trouble.TARGET_OUT, "spark", 0.0, "spark: fails", "tandem check --live")]
    screen = make_screen(paper)
    screen.start(asyncio.get_running_loop())

    screen.watch.look_at(lambda: notices)
    await until(lambda: any("spark: fails" in line for line in paper.lines()))
    notices.clear()
    exchange = make_exchange(screen)
    exchange.note(make_decided())

    await until(lambda: paper.lines() and not any("spark: fails" in line for line in paper.lines()))
    screen.close()


async def test_while_nothing_changes_looking_for_troubles_draws_nothing(paper):
    looks: list[int] = []

    def look() -> list[Notice]:
        looks.append(1)
        return []

    screen = make_screen(paper)
    screen.start(asyncio.get_running_loop())

    screen.watch.look_at(look)
    await some_turns()

    assert (len(looks), paper.given) == (1, 0)
    screen.close()


async def test_what_is_waited_for_is_below_the_turns_until_it_is_over(paper):
    screen = make_screen(paper)
    screen.open(asyncio.get_running_loop(), FACTS)

    screen.wait_for("the others")
    await until(lambda: paper.lines()[-1:] == ["… the others"])
    screen.wait_for("")
    await until(lambda: "… the others" not in paper.lines())


async def test_a_line_that_asks_for_a_tier_is_among_the_words_that_were_typed(paper):
    screen = make_screen(paper, shows_words=True)
    screen.open(asyncio.get_running_loop(), FACTS)
    exchange = make_exchange(screen, name="req_1")

    exchange.note(Read(ask("tier: fast\nsketch it")))
    exchange.note(make_decided())
    await until(lambda: any('"tier: fast sketch it"' in line for line in paper.lines()))


async def test_its_last_words_can_be_others_than_the_totals(paper):
    screen = make_screen(paper)
    screen.start(asyncio.get_running_loop())

    screen.close("all is done")

    assert paper.lines() == ["all is done"]


def serve(totals: Totals, name: str, tier: Tier, kind: TurnKind = TurnKind.ASK, **more) -> None:
    own = {"duration_ms": 1_000.0, "cost_usd": 0.01, "session": "s", "decision": keep(tier)}
    entry = make_entry(name, tier=tier, turn_kind=kind, **{**own, **more})
    totals.count_end(entry.line, entry.decision)


def test_turns_tiers_money_and_time_are_told_against_deep():
    totals = Totals()
    serve(totals, "1", Tier.FAST)
    serve(totals, "2", Tier.FAST)
    serve(totals, "3", Tier.DEEP, duration_ms=20_000.0, cost_usd=0.5)

    assert totals.sentence() == "3 turns, 2 fast, 1 deep, $0.52; $0.080 and about 18 s less than all on deep"


def test_a_move_up_counts_once_and_each_failure():
    totals = Totals()
    serve(totals, "1", Tier.FAST)
    serve(totals, "2", Tier.DEEP, TurnKind.TOOL_LOOP)
    serve(totals, "3", Tier.DEEP, TurnKind.TOOL_LOOP, outcome=Outcome.FAILED)

    assert totals.sentence().endswith("; $0.010 and about 1.0 s more than all on deep; 1 turn was redone (1.0 s); 1 failed")


def test_without_prices_the_time_is_told():
    totals = Totals()
    serve(totals, "1", Tier.FAST, cost_usd=None)

    assert totals.sentence() == "1 turn, 1 fast, 1.0 s; about 9.0 s less than all on deep; the cost of 1 call is unknown"


def test_without_turns_there_is_little_to_say():
    totals = Totals()
    totals.count_end(replace(LINE, tier=None, outcome=Outcome.REFUSED, error="model_not_found"), None)

    assert Totals().sentence() == "no turns"
    assert totals.sentence() == "no turns, 1 refused"


def test_what_the_ledger_knows_is_told_instead_with_those_refused_before_admission(tmp_path):
    def turn(name: str, at: float):
        return make_entry(
            name, at=at, session=name, tier=Tier.FAST, duration_ms=1_000.0, cost_usd=0.01, decision=keep(Tier.FAST)
        )

    path = write_ledger(tmp_path / "test.db", turn("before", 99.0), turn("1", 101.0), turn("2", 102.0))
    judge_turn(path, SqliteEntryReader(path).find_turn("2"), Tier.DEEP)
    totals = Totals()
    serve(totals, "1", Tier.FAST)
    totals.refused += 1

    totals.read_from(path, 100.0)
    assert totals.sentence() == (
        "2 turns, 2 fast, $0.020; $0.030 and about 8.0 s less than all on deep; 1 turn was redone (1.0 s); 1 refused"
    )
    totals.read_from(tmp_path / "gone.db", 100.0)
    assert totals.sentence().startswith("1 turn, 1 fast, $0.010; ")
