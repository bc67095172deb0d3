"""What a new user reads at the start of a router."""

import pytest

from router.cli.welcome import welcome
from router.config.load import find_config, load_config
from router.wiring.build import known_names
from tests.conftest import SIMULATED


@pytest.mark.parametrize("has_file", [True, False])
def test_force_is_named_only_where_there_is_a_file_to_overwrite(here, has_file):
    if has_file:
        (here / "config.yaml").write_text(SIMULATED)
    loaded = load_config(find_config(None), known_names())

    assert ("init --force`" in welcome(loaded, "http://x")) is has_file


def test_who_receives_the_words_of_turns_in_doubt_is_said_at_the_start(here):
    (here / "config.yaml").write_text(f"{SIMULATED}\nsecond_opinion: {{target: simulated-fast}}\n")
    loaded = load_config(find_config(None), known_names())

    assert "Second opinion: simulated-fast (simulated) receives the words of turns in doubt." in welcome(loaded, "http://x")
