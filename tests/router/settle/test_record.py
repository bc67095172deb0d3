"""A request that is over is written once, a little later, and its entry handed to the ledger."""

from router.contract.caller import LOCAL
from router.contract.facts import Ending, FirstByte, Read, Recorded, Settled
from router.contract.words import Outcome
from router.settle import record
from router.settle.record import Recorder
from tests.tools.exchanges import make_exchange
from tests.tools.values import ask, make_target
from tests.tools.waiting import until, until_steady

SETTLED = Settled(3.0, Ending(Outcome.SERVED, 200))


class Entries:
    def __init__(self) -> None:
        self.kept = []
        self.is_closed = False

    def append(self, entry) -> None:
        self.kept.append(entry)

    async def find_decision(self, request_id, caller):
        return next(({"id": entry.line.id} for entry in self.kept if entry.line.id == request_id), None)

    async def close(self) -> None:
        self.is_closed = True


class Broken(Entries):
    def append(self, entry) -> None:
        raise RuntimeError


class Watches:
    def __init__(self, on_recorded) -> None:
        self._on_recorded = on_recorded

    def handlers(self):
        return {Recorded: lambda _, __: self._on_recorded()}


async def test_the_entry_is_noted_once_a_little_after_the_end():
    recorder = Recorder(Entries())
    exchange = make_exchange(recorder, name="req_3")

    exchange.note(Read(ask()))
    exchange.note(SETTLED)
    assert exchange.last(Recorded) is None
    await until(lambda: exchange.last(Recorded) is not None)
    await until_steady(lambda: len(exchange.journal))

    _, settled, recorded = exchange.journal
    assert isinstance(recorded, Recorded)
    assert settled is SETTLED
    assert (recorded.entry.line.id, recorded.entry.line.model, recorded.entry.line.duration_ms) == ("req_3", "auto", 3000.0)


async def test_an_entry_says_when_its_request_came_and_not_when_it_was_written(monkeypatch):
    monkeypatch.setattr(record.time, "time", lambda: 1_000.0)
    recorder = Recorder(Entries())
    exchange = make_exchange(recorder)
    exchange.note(SETTLED)
    monkeypatch.setattr(record.time, "time", lambda: 2_000.0)
    recorder.write()

    assert exchange.last(Recorded).entry.line.at == 1_000.0 - 3.0


async def test_every_entry_goes_to_the_store_and_nothing_else_does():
    entries = Entries()
    recorder = Recorder(entries)
    exchange = make_exchange(recorder, name="req_3")

    exchange.note(FirstByte(make_target()))
    recorder.write()
    assert entries.kept == []
    exchange.note(SETTLED)
    recorder.write()
    recorder.write()

    assert [entry.line.id for entry in entries.kept] == ["req_3"]


async def test_the_store_gets_the_entry_that_is_noted_and_gets_it_first():
    entries, at_the_store = Entries(), []
    recorder = Recorder(entries)
    exchange = make_exchange(recorder, Watches(lambda: at_the_store.append(len(entries.kept))))

    exchange.note(SETTLED)
    recorder.write()

    assert entries.kept == [exchange.last(Recorded).entry]
    assert at_the_store == [1]


async def test_an_entry_is_noted_though_the_store_has_a_defect_and_so_are_the_others():
    noted, reported, recorder = [], [], Recorder(Broken())
    for _ in range(2):
        exchange = make_exchange(recorder, Watches(lambda: noted.append(True)))
        exchange.observers.report = lambda _, error: reported.append(type(error))
        exchange.note(SETTLED)
    recorder.write()

    assert noted == [True, True]
    assert reported == [RuntimeError, RuntimeError]


async def test_what_did_not_go_well_is_written_at_once_and_after_what_ended_before_it():
    entries = Entries()
    recorder = Recorder(entries)
    make_exchange(recorder, name="req_1").note(SETTLED)
    make_exchange(recorder, name="req_2").note(Settled(3.0, Ending(Outcome.REFUSED, 404)))

    assert [entry.line.id for entry in entries.kept] == ["req_1", "req_2"]


async def test_many_that_end_at_once_are_not_kept_waiting(monkeypatch):
    monkeypatch.setattr(record, "_MAX_ENTRIES", 3)
    entries = Entries()
    recorder = Recorder(entries)
    for _ in range(4):
        make_exchange(recorder).note(SETTLED)

    assert len(entries.kept) == 3
    recorder.write()
    assert len(entries.kept) == 4


async def test_in_plain_mode_each_entry_is_written_at_once():
    entries = Entries()
    recorder = Recorder(entries, plain=True)

    make_exchange(recorder).note(SETTLED)

    assert len(entries.kept) == 1


async def test_who_looks_an_entry_up_or_closes_finds_all_of_them():
    entries = Entries()
    recorder = Recorder(entries)
    make_exchange(recorder, name="req_3").note(SETTLED)
    assert await recorder.find_decision("req_3", LOCAL) == {"id": "req_3"}

    make_exchange(recorder, name="req_4").note(SETTLED)
    await recorder.close()
    assert [entry.line.id for entry in entries.kept] == ["req_3", "req_4"]
    assert entries.is_closed
