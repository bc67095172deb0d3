"""`tandem keys`."""

import io
import json
import os
import stat
import threading
from datetime import UTC, datetime, timedelta

import pytest

from router.cli import config_file, main
from router.config.key_file import read_key_file
from router.contract.caller import Caller
from router.contract.keys import make_key, split_key
from router.contract.rights import Rights
from router.contract.words import Tier
from tests.conftest import SIMULATED
from tests.tools.kept import make_entry
from tests.tools.keyed import KEYS, write_keys
from tests.tools.ledgers import write_ledger

WRITTEN = (
    "# Callers, what each may do, and digests of their keys. `tandem keys` writes this file, and keeps comments only above "
    "`callers`.\n"
)
HAND = f"""callers:
  # the first
  ada:            # platform team
    daily_usd: 5  # as agreed
    keys:
      - {{id: "aaaaaaaa", sha256: "{"0" * 64}", created: 2026-10-01}}   # since October
      - id: "bbbbbbbb"
        sha256: "{"0" * 64}"
        created: 2026-10-01T10:00:00.5+02:00
  bob:
    keys:
"""


@pytest.fixture
def config(home):
    (home / "config.yaml").write_text(SIMULATED + KEYS)
    return home


@pytest.fixture
def run(capsys):
    """Run a command: its status, what it printed, and what it said."""

    def run(*words):
        try:
            status = main(["keys", *words])
        except SystemExit as end:  # argparse
            status = end.code
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


@pytest.fixture
def add(run):
    """Add a caller: its key."""

    def add(name, *options):
        status, out, _ = run("add", name, *options)
        assert status == 0
        return out.strip()

    return add


def read(folder):
    return read_key_file(folder / "keys.yaml")


def test_add_prints_the_key_alone_and_once_and_keeps_only_its_digest(config, run):
    status, out, err = run("add", "ada")

    text = out.strip()
    assert (status, split_key(text) is not None) == (0, True)
    assert text not in err
    assert text[13:] not in (config / "keys.yaml").read_text()
    assert stat.S_IMODE((config / "keys.yaml").stat().st_mode) == 0o600
    assert read(config).ring.find(text, 0).caller == Caller("ada")


def test_add_gives_the_rights_and_limits_that_were_named(config, add):
    add(
        "ada",
        *("--tiers", "fast", "--may-force", "fast,deep", "--admin", "--rpm", "60", "--tpm", "1000", "--in-flight", "4"),
        *("--daily-usd", "2.5", "--monthly-usd", "40", "--expires", "90d", "--no-delegate", "--jobs-in-flight", "3"),
    )

    ada = read(config).callers["ada"]
    assert ada.rights == Rights(
        frozenset({Tier.FAST}), frozenset(Tier), True, 60, 1_000, 4, 2.5, 40, may_delegate=False, jobs_in_flight=3
    )
    assert ada.keys[0].expires - ada.keys[0].created == timedelta(days=90)


def test_add_says_what_the_caller_may_do_and_how_to_use_the_key(config, run):
    _, _, err = run("add", "ada", "--daily-usd", "5", "--expires", "90d")

    assert "  served by fast and deep\n  may ask for fast by name, not for deep\n  limits: $5.00 a day\n  key " in err
    assert " expires 20" in err
    assert "  tandem connect codex --url http://127.0.0.1:4000 --key-env TANDEM_KEY\n" in err
    assert "accepts it within seconds" in err
    assert "tandem check" in err


@pytest.mark.parametrize(
    ("server", "url"),
    [
        ("server: {host: 0.0.0.0, port: 4100}", "http://HOST:4100"),
        ("server: {host: '::1'}", "http://[::1]:4000"),
        ("server: {host: llm.example.com, tls: {cert: c.pem, key: k.pem}}", "https://llm.example.com:4000"),
    ],
)
def test_the_url_for_colleagues_is_that_of_the_config(home, run, server, url):
    (home / "config.yaml").write_text(f"{SIMULATED}{server}\n{KEYS}")

    assert f"--url {url} --key-env" in run("add", "ada")[2]


def test_without_keys_in_the_config_the_line_that_asks_for_them_is_named(home, run, add):
    status, _, err = run("add", "ada")

    assert (status, (home / "keys.yaml").exists()) == (0, True)
    assert (
        "config.yaml does not ask for keys yet. Add this line to it, and restart the router:\n  keys: {file: keys.yaml}" in err
    )


def test_the_file_is_the_one_that_the_named_config_names(home, run):
    (home / "inner").mkdir()
    (home / "inner" / "work.yaml").write_text(SIMULATED + "keys: {file: team.yaml}\n")

    assert run("add", "ada", "--config", "inner/work.yaml")[0] == 0

    assert list(read_key_file(home / "inner" / "team.yaml").callers) == ["ada"]


def test_a_key_of_a_provider_need_not_be_set(home, run, monkeypatch):
    target = "{name: a, base_url: 'http://h/v1', api_key: 'env:NOT_SET_1', model: m}"
    tiers = f"tiers: {{fast: {{targets: [{target}]}}, deep: {{targets: [{target.replace('name: a', 'name: b')}]}}}}\n"
    (home / "config.yaml").write_text(tiers + KEYS)

    assert run("add", "ada")[0] == 0


def test_without_a_config_there_is_nothing_to_add_to(here, run):
    status, _, err = run("add", "ada")

    assert (status, "tandem init" in err) == (2, True)


def test_a_faulty_config_is_refused_with_every_fault(here, run):
    (here / "config.yaml").write_text("tiers: {fast: {targets: []}}\nwhat: 1\n")

    status, _, err = run("list")

    assert (status, "what: no such setting" in err, "tiers.deep" in err) == (2, True, True)


def test_a_caller_is_not_added_twice(config, add, run):
    add("ada")
    before = (config / "keys.yaml").read_text()

    status, out, err = run("add", "ada", "--admin")

    assert (status, out) == (1, "")
    assert "hint: tandem keys rotate ada" in err
    assert (config / "keys.yaml").read_text() == before


@pytest.mark.parametrize("name", ["local", "a b", "a/b", "-x", "x" * 65, f"tdm_0123abcd_{'A' * 43}"])
def test_a_name_that_may_not_be_used_is_refused(config, run, name):
    assert run("add", "--", name)[0] == 2 or run("add", name)[0] == 2

    assert not (config / "keys.yaml").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add"], "needs the name of a caller"),
        (["test"], "needs a key, or - to read it"),
        (["list", "ada"], "takes no name"),
        (["revoke", "ada", "--rpm", "3"], "--rpm is an option of tandem keys add and set, not of revoke"),
        (["add", "ada", "--grace", "1h"], "--grace is an option of tandem keys rotate"),
        (["set", "ada", "--json"], "--json is an option of tandem keys add, list, rotate and forget, not of set"),
        (["set", "ada"], "needs what to change"),
        *((["add", "ada", f"--expires={time}"], f'"{time}" is not a time such as') for time in ("soon", "90", "-1d", "1y")),
        (["add", "ada", "--expires", "0"], "expires at once"),
        *((["add", "ada", "--may-force", tiers], "must be fast, deep") for tiers in ("slow", "fast,none", "fast deep")),
        (["add", "ada", "--daily-usd", "0"], "not a number from"),
    ],
    ids=range(16),
)
def test_wrong_usage_is_explained(config, run, words, said):
    status, _, err = run(*words)

    assert status == 2
    assert said in " ".join(err.split())


def test_set_changes_what_is_named(config, add, run):
    key = add("ada", "--rpm", "60", "--daily-usd", "5", "--no-delegate")

    status, out, err = run("set", "ada", "--rpm", "30", "--daily-usd", "none", "--delegate", "--tiers", "deep", "--admin")

    assert (status, out) == (0, "")
    assert "limits: 30 requests a minute\n" in err
    assert "A running router follows it within seconds." in err
    rights = read(config).callers["ada"].rights
    assert rights == Rights(tiers=frozenset({Tier.DEEP}), is_admin=True, requests_per_minute=30)
    assert run("test", key)[0] == 0


def test_set_gives_the_keys_that_work_another_end(config, add, run):
    add("ada", "--expires", "1h")

    assert run("set", "ada", "--expires", "90d")[0] == 0

    (key,) = read(config).callers["ada"].keys
    assert key.expires - key.created > timedelta(days=89)


def test_set_does_not_bring_back_a_key_that_has_expired(config, run):
    key = write_keys(config, expired="")["expired"]

    assert run("set", "expired", "--expires", "90d")[0] == 0

    assert run("test", key.text)[0] == 1


@pytest.mark.parametrize("words", [["set", "bob", "--rpm", "3"], ["set", "ada", "--tiers", "none"]])
def test_set_refuses_a_caller_that_is_not_there_and_one_without_a_tier(config, add, run, words):
    add("ada")
    before = (config / "keys.yaml").read_text()

    assert run(*words)[0] in (1, 2)

    assert (config / "keys.yaml").read_text() == before


def test_rotate_makes_another_key_of_the_same_caller_and_lets_the_old_one_work_on(config, add, run):
    old = add("ada", "--daily-usd", "5", "--expires", "90d")

    status, out, err = run("rotate", "ada", "--grace", "2h")

    file, now = read(config), datetime.now(UTC).timestamp()
    new = out.strip()
    assert status == 0
    assert file.ring.find(old, now).caller == file.ring.find(new, now).caller == Caller("ada")
    assert file.callers["ada"].rights == Rights(daily_usd=5)
    first, second = file.callers["ada"].keys
    assert (first.expires - second.created, second.expires - second.created) == (timedelta(hours=2), timedelta(days=90))
    assert f"key {first.id} expires 20" in err


def test_rotate_without_grace_ends_the_old_key_at_once(config, add, run):
    old = add("ada")

    run("rotate", "ada", "--grace", "0")

    assert [key.id for key in read(config).callers["ada"].keys if key.id == split_key(old)[0]] == []


def test_rotate_leaves_a_key_that_ends_sooner_and_removes_one_that_has_ended(config, run):
    write_keys(config, expired="daily_usd: 1")

    run("rotate", "expired", "--expires", "1h")
    soon = read(config).callers["expired"].keys
    run("rotate", "expired")

    both = read(config).callers["expired"].keys
    assert len(soon) == 1
    assert both[0] == soon[0]
    assert both[1].expires - both[1].created == timedelta(hours=1)


def test_revoke_takes_a_caller_with_all_keys_or_one_key_by_its_id_or_itself(config, add, run):
    ada, bob, eve = add("ada"), add("bob"), add("eve")
    bob_2 = run("rotate", "bob")[1].strip()

    statuses = [run("revoke", "ada")[0], run("revoke", split_key(bob)[0])[0], run("revoke", eve)[0]]

    assert statuses == [0, 0, 0]
    (caller, settings), *rest = read(config).callers.items()
    assert (caller, [key.id for key in settings.keys], rest) == ("bob", [split_key(bob_2)[0]], [])
    assert ada


def test_rights_and_limits_are_told_in_plain_words(config, add, run):
    limits = ("--rpm", "60", "--tpm", "100000", "--in-flight", "8", "--jobs-in-flight", "2", "--monthly-usd", "100")
    limited = add("ada", "--tiers", "deep", "--may-force", "none", "--no-delegate", "--no-both-tiers", *limits)
    admin = add("bob", "--may-force", "deep, fast", "--admin", "--expires", " 8 W ")

    told = [run("test", key)[1].splitlines()[1:] for key in (limited, admin)]

    assert told[0] == [
        "  served by deep only",
        "  may not ask for a tier by name: Tandem chooses",
        "  may not have requests served in the background",
        "  may not have both tiers work on one task",
        "  limits: 60 requests a minute, 100,000 tokens a minute, 8 requests at once, 2 background jobs at once, $100 a month",
        "  never expires",
    ]
    assert told[1][1:4] == [
        "  may ask for fast and deep by name",
        "  no limits",
        "  admin: may see the figures of all callers, and reload the config",
    ]
    assert told[1][4].startswith("  expires 20")


@pytest.mark.parametrize("action", ["revoke", "rotate"])
def test_a_name_that_is_not_there_is_reported(config, add, run, action):
    add("ada")

    status, out, err = run(action, "adda")

    assert (status, out) == (1, "")
    assert 'named "adda"' in err


def test_test_says_whose_key_it_is_and_what_it_may_do(config, add, run, monkeypatch):
    key = add("ada", "--tiers", "fast", "--may-force", "none")

    given = run("test", key)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{key}\n"))
    read_in = run("test", "-")

    said = f"ada (key {split_key(key)[0]})\n  served by fast only\n  may not ask for a tier by name: Tandem chooses\n"
    assert given == read_in == (0, f"{said}  no limits\n  never expires\n", "")


def test_test_exits_1_for_a_key_that_is_refused_and_says_why(config, run):
    keys = write_keys(config, ada="", expired="")
    wrong = {
        make_key().text: "no key has the id",
        make_key(keys["ada"].id).text: "its last part differs",
        keys["expired"].text: f"key {keys['expired'].id} expired 20",
        "sk-proj-1": "this is not a key of Tandem",
    }

    for text, why in wrong.items():
        status, out, err = run("test", text)
        assert (status, out, why in err) == (1, "", True), err
        assert text[13:] not in err or not text[13:]


def test_list_is_a_table_of_keys_with_what_their_callers_spent(config, add, run):
    first = add("ada", "--daily-usd", "5")
    add("bob", "--tiers", "fast", "--admin")
    second = run("rotate", "ada")[1]
    write_ledger(config / "test.db", make_entry("1", Caller("ada"), cost_usd=0.25), make_entry("2", Caller("eve"), cost_usd=9))

    status, out, _ = run("list")

    title, ada, ada_2, bob = (line.split() for line in out.splitlines())
    assert status == 0
    assert title[:2] == ["id", "name"]
    assert (ada[0], ada[1], ada[2], ada[-4:-2]) == (split_key(first)[0], "ada", "fast+deep", ["$0.25", "$0.25"])
    assert (ada_2[0], len(ada_2)) == (split_key(second.strip())[0], 5)
    assert bob[1:5] == ["bob", "fast", "fast", "yes"]


@pytest.mark.parametrize("action", ["add", "rotate"])
def test_a_new_key_can_be_had_as_json(config, run, action):
    if action == "rotate":
        run("add", "ada", "--rpm", "60")
    options = ["--rpm", "60"] if action == "add" else []

    status, out, err = run(action, "ada", "--json", "--expires", "90d", *options)

    told = json.loads(out)
    found = read(config).ring.find(told["key"], 0)
    assert (status, found.id, told["name"], told["rights"]["requests_per_minute"]) == (0, told["id"], "ada", 60)
    assert (told["created"] < told["expires"], told["key"] in err) == (True, False)


def test_list_as_json_has_ids_rights_spending_and_last_use(config, add, run):
    key = add("ada", "--monthly-usd", "40")
    write_ledger(config / "test.db", make_entry("1", Caller("ada"), at=1_000.0, cost_usd=3))

    status, out, err = run("list", "--json")

    (listed,) = json.loads(out)
    assert (status, err) == (0, "")
    assert (listed["id"], listed["name"], listed["is_expired"]) == (split_key(key)[0], "ada", False)
    assert listed["rights"] | {"tiers": ["fast", "deep"], "may_force": ["fast"], "monthly_usd": 40} == listed["rights"]
    assert (listed["spent_today_usd"], listed["spent_this_month_usd"]) == (0, 0)
    assert listed["last_used"] == "1970-01-01T00:16:40+00:00"


@pytest.mark.parametrize(
    ("zone", "today", "month"), [("UTC", 0, 0), ("Europe/Berlin", 1.0, 1.0), ("America/New_York", 1.0, 3.0)]
)
def test_a_day_and_a_month_begin_where_the_config_says(config, add, run, monkeypatch, zone, today, month):
    (config / "config.yaml").write_text(f"{SIMULATED}budgets: {{time_zone: {zone}}}\n")
    now = datetime(2026, 11, 1, 0, 30, tzinfo=UTC).timestamp()
    add("ada")
    entries = [make_entry("1", Caller("ada"), at=now - 3_600, cost_usd=1)]
    write_ledger(config / "test.db", *entries, make_entry("2", Caller("ada"), at=now - 15 * 86_400, cost_usd=2))
    monkeypatch.setattr("time.time", lambda: now)

    (listed,) = json.loads(run("list", "--json")[1])

    assert (listed["spent_today_usd"], listed["spent_this_month_usd"]) == (today, month)


def test_a_key_was_last_used_by_itself_and_in_a_ledger_without_keys_by_its_caller(config, add, run):
    first = split_key(add("ada"))[0]
    run("rotate", "ada")
    (config / "keys.yaml").write_text((config / "keys.yaml").read_text() + "  bob: {}\n")

    def list_used(*keys):
        (config / "test.db").unlink(missing_ok=True)
        write_ledger(config / "test.db", *(make_entry(f"{key}", Caller("ada"), key=key, at=10.0) for key in keys))
        return [entry["last_used"] is not None for entry in json.loads(run("list", "--json")[1])]

    assert list_used(first) == [True, False, False]
    assert list_used(None) == [True, True, False]
    assert run("list")[1].splitlines()[-1].split()[:2] == ["no", "key"]


def test_list_without_callers_says_how_to_add_one(config, run):
    assert run("list")[0] == 0
    assert run("list", "--json")[1].strip() == "[]"
    assert "tandem keys add NAME" in run("list")[2]


@pytest.mark.parametrize(
    ("text", "head", "has_lost"),
    [
        ("callers: {ada: {daily_usd: 1, keys: []}}\n", [], False),
        ("# ours\n\n# as agreed\ncallers: {ada: {daily_usd: 1}}\n", ["# ours", "", "# as agreed"], False),
        (f"{WRITTEN}# ours\n{HAND}", ["# ours"], True),
        (HAND.replace("\n", "\r\n"), [], True),
    ],
)
def test_a_file_in_any_form_is_written_again_with_its_first_comments_and_kept_as_it_was(config, run, text, head, has_lost):
    path = config / "keys.yaml"
    path.touch(0o600)
    path.write_bytes(text.encode())
    before = read(config).callers

    _, _, err = run("add", "eve", "--rpm", "2")

    first, *lines = path.read_text().splitlines()
    after = read(config).callers
    assert f"{first}\n" == WRITTEN
    assert lines[: len(head) + 1] == [*head, "callers:"]
    assert {**after, "eve": None} == {**before, "eve": None}
    assert (config / "keys.yaml.before").read_bytes() == text.encode()
    assert f"wrote {path}; the old file is {path}.before\n" in err
    assert ("were not kept: they are in the old file" in err) is has_lost


def test_a_command_changes_only_the_lines_of_its_caller(config, add, run):
    add("ada", "--daily-usd", "5", "--may-force", "none")
    add("bob", "--expires", "90d")
    before = (config / "keys.yaml").read_text().splitlines()

    run("set", "ada", "--daily-usd", "6")

    after = (config / "keys.yaml").read_text().splitlines()
    assert [line for line in after if line not in before] == ["    daily_usd: 6.0"]
    assert [line for line in before if line not in after] == ["    daily_usd: 5.0"]


@pytest.mark.parametrize("name", ["1e5", "2026", "yes", "null", "2026-11-01", "a.b@example.com"])
def test_every_name_is_read_as_it_was_given(config, add, name):
    add(name)

    assert list(read(config).callers) == [name]


def test_no_other_user_can_read_the_file_or_the_one_before_at_any_time(config, add, monkeypatch):
    modes = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda new, old: modes.append(os.stat(new).st_mode & 0o777) or replace(new, old))
    mask = os.umask(0)
    try:
        add("ada")
        (config / "keys.yaml").chmod(0o400)
        add("bob")
    finally:
        os.umask(mask)

    assert modes == [0o600, 0o600, 0o400]
    assert [stat.S_IMODE(path.stat().st_mode) for path in config.glob("keys.yaml*")] == [0o400, 0o400]


def test_a_change_that_another_program_makes_meanwhile_is_not_lost(config, add, run, monkeypatch):
    add("ada")
    path, compose = config / "keys.yaml", config_file.write_keys

    def meddle(file):
        path.write_text("callers: {}\n")
        return compose(file)

    monkeypatch.setattr(config_file, "write_keys", meddle)

    status, _, err = run("add", "bob")

    assert (status, "try again" in err, path.read_text()) == (1, True, "callers: {}\n")


def test_callers_that_are_added_at_once_are_all_there(config):
    threads = [threading.Thread(target=main, args=(["keys", "add", f"user{number}"],)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(read(config).callers) == {f"user{number}" for number in range(8)}


def test_a_link_stays_a_link(config, add):
    (config / "inner").mkdir()
    (config / "keys.yaml").symlink_to(config / "inner" / "team.yaml")

    add("ada")
    add("bob")

    assert (config / "keys.yaml").is_symlink()
    assert sorted(path.name for path in (config / "inner").iterdir()) == ["team.yaml", "team.yaml.before"]
    assert list(read(config).callers) == ["ada", "bob"]


def test_a_file_of_another_user_is_not_taken_over(config, add, run, monkeypatch):
    add("ada")
    path = config / "keys.yaml"
    before = path.read_text()
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    path.chmod(0o640)

    assert run("add", "bob")[0] != 0

    assert path.read_text() == before


def test_a_file_that_others_can_read_is_refused(config, add, run):
    add("ada")
    (config / "keys.yaml").chmod(0o644)

    for words in (["list"], ["add", "bob"], ["test", "x"]):
        status, _, err = run(*words)
        assert (status, "chmod 600" in err) == (2, True)
