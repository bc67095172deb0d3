"""`/tandem/past/…`: the ledger for commands on another machine."""

import time

import pytest

from router.contract.caller import LOCAL
from router.contract.errors import TandemError
from router.contract.stores import StoreUnusable
from router.edge.control.panel import Asked
from router.page.past import Past
from router.past.answers import QUESTIONS
from tests.router.page.test_queries import fill
from tests.tools.http import call
from tests.tools.kept import ANN, make_entry
from tests.tools.keyed import KEYS, Callers
from tests.tools.ledgers import write_ledger
from tests.tools.running import two_targets

CONFIG = two_targets("http://127.0.0.1:9", "http://127.0.0.1:9")


async def test_a_caller_is_told_of_its_own_rows_and_an_admin_of_all(start, tmp_path):
    fill(tmp_path)
    callers = Callers(tmp_path, ann={}, bob={}, boss={"admin": True})
    tandem = await start(KEYS + CONFIG)

    async def ask(name: str, question: str):
        return (await call(tandem.port, f"/tandem/past/{question}", headers=callers[name])).json

    for name, query, own in (("ann", "", "12"), ("bob", "?caller=ann", "3"), ("boss", "", "123"), ("boss", "?caller=bob", "3")):
        ids = [f"req_{number}" for number in own]
        assert [row["id"] for row in (await ask(name, f"turns{query}"))["calls"]] == ids
        assert sum(sums["calls"] for sums in (await ask(name, f"sessions{query}"))["sessions"]) == len(ids)
        sums = await ask(name, f"sums{query}")
        assert (sum(row["calls"] for row in sums["calls"]), sums["savings"]["complete"]) == (len(ids), True)
        assert (await ask(name, f"turn{query}"))["turn"]["id"] == ids[-1]
    for begins in ("", "&begins=1"):
        assert (await ask("ann", f"turn?request=req_3{begins}")) == {"turn": None, "undecided": None}
        assert (await ask("boss", f"turn?request=req_3{begins}"))["turn"]["caller"] == "bob"
    assert (await call(tandem.port, "/tandem/past/turns")).status == 401


async def test_only_so_much_of_the_newest_is_told_as_was_asked_for(start, tmp_path):
    ages = {"req_1": 90_000, "req_2": 10, "req_3": 5}
    entries = [make_entry(name, ANN, at=time.time() - age, session="s") for name, age in ages.items()]
    write_ledger(tmp_path / "test.db", *entries)
    tandem = await start(CONFIG)

    newest = (await call(tandem.port, "/tandem/past/turns?count=1")).json
    recent = (await call(tandem.port, "/tandem/past/turns?since=3600")).json

    assert [row["id"] for row in newest["calls"]] == ["req_3"]
    assert [row["id"] for row in recent["calls"]] == ["req_2", "req_3"]
    assert recent["earlier"] == [{"caller": "ann", "session": "s", "turns": 1}]


async def test_a_ledger_that_is_off_or_unreadable_is_said(start, tmp_path):
    tandem = await start(CONFIG)
    await tandem.entries(0)
    (tmp_path / "test.db").unlink()
    (tmp_path / "test.db").mkdir()  # a lost file would be made again
    assert (await call(tandem.port, "/tandem/past/turns")).status == 503

    without = await start(CONFIG.replace("{path: test.db}", "{path: null}"))
    assert "keeps no ledger" in (await call(without.port, "/tandem/past/turns")).json["error"]["message"]


class Noting:
    """A ledger that notes what it is asked, and can answer nothing."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def sync(self) -> None:
        self.asked.append("sync")

    def wait_for_writer(self) -> None:
        self.asked.append("wait")

    def __getattr__(self, name: str):
        self.asked.append(name)
        raise StoreUnusable("it is away")


async def test_the_writer_is_waited_for_before_the_ledger_is_asked():
    for number, name in enumerate(QUESTIONS):
        page = Past(ledger := Noting(), ledger).pages[number]

        with pytest.raises(TandemError):
            await page.answer(Asked("req_1", LOCAL, {}, {}, {}, None))

        assert (ledger.asked[:2], len(ledger.asked) > 2) == (["sync", "wait"], True), name
