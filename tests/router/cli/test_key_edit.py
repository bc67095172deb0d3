"""Changing `keys.yaml`."""

import os
import stat
import threading
from datetime import UTC, datetime

import pytest

from router.cli import Ended
from router.cli.key_edit import change_key_file
from router.config.key_file import CallerSettings, KeyFile, KeySettings, read_key_file
from router.contract.keys import make_key
from router.contract.words import Tier

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
WRITTEN = """# our developers
callers:
  # the first
  ada:            # platform team
    daily_usd: 5  # as agreed
    keys:
      # her laptop
      - {id: "aaaaaaaa", sha256: "DIGEST", created: 2026-10-01}   # since October
      - id: "bbbbbbbb"
        sha256: "DIGEST"
        created: 2026-10-01T10:00:00.5+02:00

  # the second
  bob:
    keys:
    - {id: "cccccccc", sha256: "DIGEST", created: 2026-10-01T10:00:00Z, expires: 2027-10-01T10:00:00Z}
# the end
""".replace("DIGEST", "0" * 64)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "keys.yaml"


@pytest.fixture
def written(path):
    path.touch(0o600)
    path.write_text(WRITTEN)
    return path


def new_key(expires=None):
    key = make_key()
    return KeySettings(id=key.id, sha256=key.digest.hex(), created=NOON, expires=expires)


def with_caller(name, **settings):
    return lambda file: KeyFile(callers={**file.callers, name: CallerSettings(**settings)})


def test_a_file_is_made_for_its_owner_alone_and_reads_as_what_was_meant(path):
    key = new_key(expires=datetime(2027, 1, 1, tzinfo=UTC))
    change_key_file(path, with_caller("ada", tiers=(Tier.FAST,), admin=True, daily_usd=2.5, in_flight=3, keys=(key,)))

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    ada = read_key_file(path).callers["ada"]
    assert (ada.tiers, ada.admin, ada.daily_usd, ada.in_flight, ada.keys) == ((Tier.FAST,), True, 2.5, 3, (key,))
    assert os.listdir(path.parent) == ["keys.yaml"]


def test_no_other_user_can_read_the_new_file_at_any_time(path, monkeypatch):
    modes = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda new, old: modes.append(os.stat(new).st_mode & 0o777) or replace(new, old))
    mask = os.umask(0)
    try:
        change_key_file(path, with_caller("ada"))
    finally:
        os.umask(mask)

    assert modes == [0o600]


@pytest.mark.parametrize("name", ["1e5", "2026", "yes", "null", "2026-11-01", "a.b@example.com"])
def test_every_name_is_read_as_it_was_given(path, name):
    change_key_file(path, with_caller(name, keys=(new_key(),)))

    assert list(read_key_file(path).callers) == [name]


@pytest.mark.parametrize(
    "text", ["", "# nothing yet\n", "callers:\n", "callers: {}\n", "callers: null  # nobody\n", "callers:"]
)
def test_a_file_without_callers_gets_its_first(path, text):
    path.touch(0o600)
    path.write_text(text)

    change_key_file(path, with_caller("ada", keys=(new_key(),)))

    assert list(read_key_file(path).callers) == ["ada"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_file_is_written_whole_with_its_first_comments_and_kept_as_it_was(written, capsys, end):
    text = WRITTEN.replace("\n", end)
    written.write_bytes(text.encode())
    before = read_key_file(written).callers

    change_key_file(written, with_caller("eve", keys=(new_key(),)))

    assert written.read_text().splitlines()[1:4] == ["# our developers", "callers:", "  ada:"]
    assert list(read_key_file(written).callers.items())[:2] == list(before.items())
    kept = written.with_name("keys.yaml.before")
    assert (kept.read_bytes(), stat.S_IMODE(kept.stat().st_mode)) == (text.encode(), 0o600)
    assert f"wrote {written}; the old file is {kept}\n  its comments below" in capsys.readouterr().err


def test_all_callers_may_go(written):
    change_key_file(written, lambda _: KeyFile())

    assert read_key_file(written).callers == {}


def test_a_change_that_another_program_makes_meanwhile_is_not_lost(written):
    def meddle(file):
        written.write_text(WRITTEN + "# a new comment\n")
        return with_caller("eve")(file)

    with pytest.raises(Ended, match="try again"):
        change_key_file(written, meddle)

    assert written.read_text() == WRITTEN + "# a new comment\n"


def test_callers_that_are_added_at_once_are_all_there(path):
    threads = [threading.Thread(target=change_key_file, args=(path, with_caller(f"user{n}"))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(read_key_file(path).callers) == {f"user{number}" for number in range(8)}


def test_a_link_stays_a_link(written, tmp_path):
    link = tmp_path / "link.yaml"
    link.symlink_to(written)

    change_key_file(link, with_caller("eve"))

    assert link.is_symlink()
    assert "eve" in read_key_file(written).callers


def test_a_file_of_another_user_is_not_taken_over(written, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: written.stat().st_uid + 1)
    written.chmod(0o640)

    with pytest.raises(PermissionError):
        change_key_file(written, with_caller("eve"))

    assert written.read_text() == WRITTEN
