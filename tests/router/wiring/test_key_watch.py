"""Changes of the key file: taken whole, or the keys before stay in use and the fault is said once."""

import os
import threading

import pytest

from router.config.faults import ConfigError
from router.contract.errors import Unauthorized
from router.contract.keys import OWN_ID, KeyRing, make_key
from router.wiring import key_watch
from router.wiring.key_watch import KeyWatch
from router.wiring.revoking import Revoking
from tests.conftest import SIMULATED
from tests.tools.waiting import later, until


def key_file(**callers: str) -> str:
    """A key file with one caller for each name, whose key is the text."""
    lines = ["callers:"]
    for name, (key_id, digest) in callers.items():
        lines += [f"  {name}:", f"    keys: [{{id: '{key_id}', sha256: {digest.hex()}, created: 2026-01-01T00:00:00Z}}]"]
    return "\n".join(lines) + "\n"


@pytest.fixture
def keys(tmp_path):
    """Writes the key file as editors do: by renaming another."""

    def write(text: str, mode: int = 0o600) -> None:
        part = tmp_path / "keys.part"
        part.write_text(text)
        part.chmod(mode)
        part.replace(tmp_path / "keys.yaml")

    return write


@pytest.fixture
def made():
    return {name: make_key() for name in ("ada", "bob")}


@pytest.fixture
def text_of(made):
    return lambda *names: key_file(**{name: (made[name].id, made[name].digest) for name in names}) if names else "callers: {}\n"


@pytest.fixture
async def tandem(start, keys, text_of):
    keys(text_of("ada", "bob"))
    return await start(f"keys: {{file: keys.yaml}}\n{SIMULATED}")


@pytest.fixture
def now():
    return [0.0]


@pytest.fixture
async def watch(tandem, now):
    found = KeyWatch(tandem.built.reloader, Revoking(tandem.house, tandem.built.jobs), lambda: now[0])
    await found.look()
    return found


@pytest.fixture
def who(tandem, made):
    """Whose keys work."""

    def ask() -> list[str]:
        found = []
        for name, key in made.items():
            try:
                found.append(tandem.house.plan.keys.find(key.text, 0.0).caller.name)
            except Unauthorized:
                assert name in made
        return found

    return ask


async def test_a_revoked_key_no_longer_works_after_the_next_look_and_the_counts_are_logged(keys, text_of, watch, who, listen):
    heard = listen()
    assert who() == ["ada", "bob"]
    keys(text_of("ada"))

    await watch.look()
    await watch.look()

    assert who() == ["ada"]
    (event,) = heard()
    assert (event["event"], event["callers"], event["keys"]) == ("keys.reloaded", 1, 1)
    assert event["changed"] == ["callers (bob)"]


async def test_the_routers_own_key_goes_on_working(tandem, keys, text_of, watch):
    keys(text_of())

    await watch.look()

    assert tandem.house.plan.keys.find(tandem.built.own_key, 0.0).caller.name == "local"


async def test_a_file_that_is_written_in_place_is_taken_too(tmp_path, text_of, watch, who):
    (tmp_path / "keys.yaml").write_text(text_of("bob"))

    await watch.look()

    assert who() == ["bob"]


async def test_a_file_that_was_only_touched_changes_nothing(tandem, tmp_path, watch, listen):
    heard, plan = listen(), tandem.house.plan
    os.utime(tmp_path / "keys.yaml", (1, 1))

    await watch.look()

    assert tandem.house.plan is plan
    assert heard() == []


@pytest.mark.parametrize(
    ("text", "mode", "fault"),
    [
        ("callers: [", 0o600, "keys.yaml"),
        ("callers: {ada: {tier: [fast]}}", 0o600, "no such setting"),
        (None, 0o644, "chmod 600"),
    ],
)
async def test_a_file_that_cannot_be_used_keeps_the_keys_and_is_said_once(keys, text_of, watch, who, listen, text, mode, fault):
    heard = listen()
    keys(text or text_of("ada"), mode)

    await watch.look()
    await watch.look()

    assert who() == ["ada", "bob"]
    (event,) = heard()
    assert event["event"] == "keys.kept"
    assert fault in " ".join(event["faults"])
    assert (watch.notice.subject, fault in watch.notice.text) == ("keys", True)
    keys(text_of("ada"))
    await watch.look()
    assert (who(), watch.notice) == (["ada"], None)


@pytest.mark.parametrize("text", ["", "# Callers, and their keys\n"])
async def test_an_emptied_file_changes_nothing_by_a_look_or_a_reload_and_is_said_once(
    tandem, tmp_path, watch, who, listen, text
):
    heard = listen()
    (tmp_path / "config.yaml").write_text(f"keys: {{file: keys.yaml}}\n{SIMULATED}")
    (tmp_path / "keys.yaml").write_text(text)

    await watch.look()
    await watch.look()
    with pytest.raises(ConfigError, match="is empty, which changes nothing while the router runs"):
        await tandem.built.reloader.reload()

    assert who() == ["ada", "bob"]
    assert [event["event"] for event in heard()] == ["keys.kept", "config.kept"]


async def test_callers_left_empty_revokes_all_keys(keys, text_of, watch, who):
    keys(text_of())
    await watch.look()

    assert who() == []


async def test_a_router_that_began_with_an_empty_file_takes_the_first_key(start, keys, text_of, tmp_path, made):
    keys("")
    tandem = await start(f"keys: {{file: keys.yaml}}\n{SIMULATED}")
    watch = tandem.built.key_watch
    await watch.look()
    assert [key.id for key in tandem.house.plan.keys] == [OWN_ID]

    keys(text_of("ada"))
    await watch.look()

    assert tandem.house.plan.keys.find(made["ada"].text, 0.0).caller.name == "ada"


async def test_keys_work_for_ten_minutes_without_their_file_and_then_no_longer(
    tmp_path, keys, text_of, watch, who, now, listen
):
    heard = listen()
    (tmp_path / "keys.yaml").unlink()
    await watch.look()
    now[0] = key_watch.GONE_SECONDS - 1
    await watch.look()
    assert who() == ["ada", "bob"]

    now[0] = key_watch.GONE_SECONDS
    await watch.look()
    await watch.look()
    assert who() == []

    keys(text_of("ada"))
    await watch.look()
    assert who() == ["ada"]
    assert [event["event"] for event in heard()] == ["keys.kept", "keys.lost", "keys.reloaded"]

    (tmp_path / "keys.yaml").unlink()
    await watch.look()
    now[0] += key_watch.GONE_SECONDS
    await watch.look()
    assert who() == []


async def test_a_file_that_comes_back_in_time_is_taken_as_it_is(tmp_path, keys, text_of, watch, who, now):
    (tmp_path / "keys.yaml").unlink()
    await watch.look()
    keys(text_of("bob"))
    await watch.look()
    now[0] = 2 * key_watch.GONE_SECONDS
    await watch.look()

    assert who() == ["bob"]


async def test_keys_that_are_taken_during_a_reload_are_in_use_after_it(tandem, who):
    reloader, has_loaded, has_read = tandem.built.reloader, threading.Event(), threading.Event()
    loaded = reloader.loaded

    def load_slowly():
        has_loaded.set()
        has_read.wait(0.2)  # in vain: the keys wait for the reload
        return loaded

    def read() -> KeyRing:
        has_read.set()
        return KeyRing((), {})

    reloader.load = load_slowly
    reloading = later(reloader.reload())
    await until(has_loaded.is_set)
    await reloader.take_keys(read)
    await reloading

    assert who() == []


async def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path, keys, text_of, watch, who, monkeypatch):
    read = key_watch.read_key_file

    def read_and_change(path):
        found = read(path)
        keys(text_of("bob"))
        return found

    monkeypatch.setattr(key_watch, "read_key_file", read_and_change)
    keys(text_of("ada"))
    await watch.look()
    assert who() == ["ada", "bob"]

    monkeypatch.setattr(key_watch, "read_key_file", read)
    await watch.look()
    assert who() == ["bob"]


class Revoked:
    """The list that routers share."""

    def __init__(self):
        self.told = []

    def report(self, revoked, restored):
        self.told.append((set(revoked), set(restored)))


@pytest.fixture
async def shared_watch(tandem, now):
    revoked = Revoked()
    found = KeyWatch(tandem.built.reloader, Revoking(tandem.house, tandem.built.jobs), lambda: now[0], revoked)
    await found.look()
    return found, revoked


async def test_keys_that_leave_the_file_or_come_back_are_told_to_other_routers(keys, text_of, shared_watch, made):
    watch, revoked = shared_watch

    keys(text_of("ada"))
    await watch.look()
    keys(text_of("ada", "bob"))
    await watch.look()

    assert revoked.told == [({made["bob"].digest}, set()), (set(), {made["bob"].digest})]


async def test_a_key_that_another_router_revoked_does_not_work_though_the_file_has_it(
    keys, text_of, shared_watch, made, who, listen
):
    watch, revoked = shared_watch
    heard = listen()

    await watch.revoke(frozenset({made["bob"].digest}))
    assert who() == ["ada"]
    (event,) = heard()
    assert (event["event"], event["changed"]) == ("keys.reloaded", ["callers (bob)"])

    keys(text_of("ada", "bob") + "\n")
    await watch.look()
    assert who() == ["ada"]
    assert revoked.told == []


async def test_a_reload_does_not_bring_a_key_back_that_another_router_revoked(tandem, tmp_path, shared_watch, made, who):
    watch, _ = shared_watch
    (tmp_path / "config.yaml").write_text(f"keys: {{file: keys.yaml}}\n{SIMULATED}")
    await watch.revoke(frozenset({made["bob"].digest}))

    await tandem.built.reloader.reload()

    assert who() == ["ada"]


async def test_a_key_works_again_once_another_router_has_put_it_back(shared_watch, made, who):
    watch, _ = shared_watch
    await watch.revoke(frozenset({made["bob"].digest}))

    await watch.revoke(frozenset())

    assert who() == ["ada", "bob"]


async def test_a_key_that_is_put_back_into_this_file_works_at_once(keys, text_of, shared_watch, made, who):
    watch, _ = shared_watch
    keys(text_of("ada"))
    await watch.look()
    await watch.revoke(frozenset({made["bob"].digest}))

    keys(text_of("ada", "bob"))
    await watch.look()

    assert who() == ["ada", "bob"]


async def test_a_file_that_is_gone_revokes_nothing_at_other_routers(tmp_path, shared_watch, now, who, made):
    watch, revoked = shared_watch
    (tmp_path / "keys.yaml").unlink()
    await watch.look()

    now[0] += key_watch.GONE_SECONDS
    await watch.look()
    await watch.revoke(frozenset({made["bob"].digest}))

    assert who() == []
    assert revoked.told == []


async def test_a_file_with_a_fault_revokes_nothing_at_other_routers(keys, shared_watch):
    watch, revoked = shared_watch

    keys("callers: {ada: {keys: [{id: x}]}}\n")
    await watch.look()

    assert revoked.told == []
