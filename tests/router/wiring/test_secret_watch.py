"""Changes of `.env` and of the certificate: in use after two looks, or reported and nothing changes."""

import pytest

from tests.conftest import SIMULATED
from tests.tools.certificates import CERT, OTHER_CERT, OTHER_KEY, TLS, write_pair
from tests.tools.http import call, chat
from tests.tools.running import two_targets
from tests.tools.upstream import CHAT_ANSWER, answer_json


@pytest.fixture
def env(tmp_path):
    return (tmp_path / ".env").write_text


@pytest.fixture
async def tandem(start, env, upstream, other_upstream):
    env("SOME_UNSET_KEY=sk-old\n")
    upstream.scripts = other_upstream.scripts = [answer_json(CHAT_ANSWER)]
    key = "api_key: 'env:SOME_UNSET_KEY',"
    return await start(two_targets(upstream.base_url, other_upstream.base_url, fast_extra=key, deep_extra=key))


async def look(tandem, times: int = 2) -> None:
    for _ in range(times):
        await tandem.built.secret_watch.look()


async def test_a_new_key_in_env_is_sent_after_two_looks_and_never_shown(tandem, env, upstream, listen):
    heard = listen()
    env("SOME_UNSET_KEY=sk-new\n")

    await look(tandem, 1)
    await call(tandem.port, "/v1/chat/completions", chat(model="fast"))
    await look(tandem, 1)
    await call(tandem.port, "/v1/chat/completions", chat(model="fast"))

    assert [seen.headers["authorization"] for seen in upstream.seen] == ["Bearer sk-old", "Bearer sk-new"]
    (event,) = [event for event in heard() if event["event"] == "secrets.reloaded"]
    assert event["changed"] == ["tiers.fast (spark)", "tiers.deep (sage)"]


async def test_files_that_say_nothing_new_change_nothing(tandem, env):
    env("SOME_UNSET_KEY=sk-new\n")
    await look(tandem)
    taken = tandem.built.reloader.loaded

    await look(tandem, 3)
    env("SOME_UNSET_KEY=sk-new\n# a comment\n")
    await look(tandem)

    assert tandem.built.reloader.loaded is taken


async def test_a_config_that_is_being_edited_is_not_taken_with_a_key(tandem, env, tmp_path, upstream):
    (tmp_path / "config.yaml").write_text("tiers: {fast: half of a")
    env("SOME_UNSET_KEY=sk-new\n")

    await look(tandem)
    await call(tandem.port, "/v1/chat/completions", chat(model="fast"))

    assert upstream.seen[0].headers["authorization"] == "Bearer sk-new"


@pytest.mark.parametrize("text", ["", "SOME_UNSET_KEY='sk-new\n"])
async def test_a_file_that_lacks_a_key_changes_nothing_and_is_reported_once(tandem, env, text, listen):
    heard, plan = listen(), tandem.house.plan
    env(text)

    await look(tandem, 4)

    assert tandem.house.plan is plan
    (event,) = heard()
    assert (event["event"], "SOME_UNSET_KEY" in str(event["faults"])) == ("config.kept", True)


async def test_the_next_reload_says_what_is_in_use_already(tandem, env, tmp_path, upstream, other_upstream):
    env("SOME_UNSET_KEY=sk-new\n")
    await look(tandem)
    key = "api_key: 'env:SOME_UNSET_KEY',"
    written = two_targets(upstream.base_url, other_upstream.base_url, fast_extra=key, deep_extra=key)
    (tmp_path / "config.yaml").write_text(written)

    said = [(await tandem.built.reloader.reload()).changes.applied for _ in range(2)]

    assert said == [("tiers.fast (spark), in use already", "tiers.deep (sage), in use already"), ()]


async def test_a_renewed_certificate_is_taken_once_its_key_is_there_too(start, tmp_path, listen):
    write_pair(tmp_path)
    tandem, heard, taken = await start(SIMULATED + TLS), listen(), []
    tandem.built.reloader.applies.append(lambda loaded: taken.append(loaded.certificate.names))

    write_pair(tmp_path, OTHER_CERT)
    await look(tandem, 1)
    write_pair(tmp_path, OTHER_CERT, OTHER_KEY)
    await look(tandem)

    assert taken == [("router.example.com", "127.0.0.1")]
    (event,) = heard()
    assert event["changed"] == ["server.tls"]


async def test_a_certificate_whose_key_does_not_fit_is_reported_and_the_old_one_stays(start, tmp_path, listen):
    write_pair(tmp_path)
    tandem, heard = await start(SIMULATED + TLS), listen()
    before = tandem.built.reloader.loaded
    write_pair(tmp_path, CERT, OTHER_KEY)

    await look(tandem, 4)

    assert tandem.built.reloader.loaded is before
    (event,) = heard()
    assert (event["event"], "is not the key of the certificate" in event["faults"][0]) == ("config.kept", True)
