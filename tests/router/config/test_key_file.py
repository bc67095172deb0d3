"""`keys.yaml`."""

import pytest

from router.config.faults import ConfigError
from router.config.key_file import read_key_file
from router.contract.caller import Caller
from router.contract.keys import make_key
from router.contract.rights import Rights
from router.contract.words import Tier

KEY = make_key()
TEXT = f"""
callers:
  ada:
    may_force: [fast, deep]
    daily_usd: 5
    keys:
      - {{id: "{KEY.id}", sha256: {KEY.digest.hex()}, created: 2026-11-01T10:00:00Z, expires: 2026-12-01}}
"""


@pytest.fixture
def write(tmp_path):
    def write(text, mode=0o600):
        path = tmp_path / "keys.yaml"
        path.write_text(text)
        path.chmod(mode)
        return path

    return write


def test_a_file_says_who_may_do_what(write):
    ring = read_key_file(write(TEXT)).ring

    assert ring.find(KEY.text, 1_780_000_000).caller == Caller("ada")
    assert ring.rights == {"ada": Rights(may_force=frozenset(Tier), daily_usd=5)}


@pytest.mark.parametrize("text", ["", "callers:\n", "callers: {}\n"])
def test_a_file_without_callers_lets_nobody_in(write, text):
    assert len(read_key_file(write(text)).ring) == 0


def test_a_caller_whose_keys_are_all_gone_has_a_name_and_no_key(write):
    ring = read_key_file(write("callers:\n  ada:\n    daily_usd: 5\n    keys:\n")).ring

    assert (len(ring), list(ring.rights)) == (0, ["ada"])


def test_a_thousand_callers_with_two_keys_each_fit_into_the_file(write):
    rights = "\n    daily_usd: 5\n    keys:"
    rest = f"sha256: '{KEY.digest.hex()}', created: 2026-11-01T10:00:00Z, expires: 2027-11-01T10:00:00Z"
    callers = (
        f"  user{number:04}@example.com:{rights}\n    - {{id: 'a{number:07}', {rest}}}\n    - {{id: 'b{number:07}', {rest}}}\n"
        for number in range(1_000)
    )

    assert len(read_key_file(write("callers:\n" + "".join(callers))).ring) == 2_000


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_can_read_or_write_is_refused(write, mode):
    with pytest.raises(ConfigError, match="other users of this machine may read it\n  hint: chmod 600"):
        read_key_file(write(TEXT, mode))


def test_a_file_that_is_not_there_comes_with_the_command_that_makes_it(tmp_path):
    with pytest.raises(ConfigError, match="tandem keys add NAME"):
        read_key_file(tmp_path / "keys.yaml")


@pytest.mark.parametrize(("old", "new", "fault"), [
    ("  ada:", "  local:", 'not "local"'),
    ("  ada:", "  a/b:", "must be 1 to 64"),
    (KEY.id, "zz", "eight hex digits"),
    (KEY.digest.hex(), KEY.text, "The key itself must not be here"),
    ("daily_usd: 5", "daily_usd: 0", "must be more than 0"),
    ("daily_usd", "dayly_usd", "did you mean daily_usd"),
    ("[fast, deep]", "[slow]", "may_force"),
], ids=range(7))  # fmt: skip
def test_what_is_wrong_is_named(write, old, new, fault):
    with pytest.raises(ConfigError, match=fault) as refused:
        read_key_file(write(TEXT.replace(old, new)))

    assert KEY.text not in str(refused.value)
