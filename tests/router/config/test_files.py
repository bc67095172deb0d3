"""The files of a config, found without its keys and targets."""

import pytest

from router.config.files import find_keys, load_ledger_path
from router.config.load import ConfigError, load_config
from router.wiring.build import known_names
from tests.conftest import SIMULATED


def test_the_ledger_is_found_without_any_key(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(SIMULATED.replace("adapter: simulated", "adapter: openai_http", 1))

    assert load_ledger_path(config, known_names) == tmp_path / "test.db"
    with pytest.raises(ConfigError):
        load_config(config, known_names())


def test_a_config_of_a_wrong_shape_has_no_ledger_to_find(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("nonsense: 1")

    with pytest.raises(ConfigError, match="problem"):
        load_ledger_path(config, known_names)


@pytest.fixture
def find(tmp_path):
    def find(extra):
        path = tmp_path / "config.yaml"
        path.write_text(SIMULATED + extra)
        return find_keys(path, known_names)

    return find


@pytest.mark.parametrize(
    ("extra", "name", "is_asked_for"),
    [("", "keys.yaml", False), ("keys:\n", "keys.yaml", True), ("keys: {file: team/k.yaml}\n", "team/k.yaml", True)],
)
def test_keys_are_next_to_the_config_or_where_it_says(find, tmp_path, extra, name, is_asked_for):
    place = find(extra)

    assert (place.path, place.is_asked_for) == (tmp_path / name, is_asked_for)
    assert place.ledger_path == tmp_path / "test.db"


def test_a_config_that_is_not_valid_is_refused_with_all_its_faults(find):
    with pytest.raises(ConfigError) as refused:
        find("what: 1\nspill_over: 7\n")

    assert {fault.path for fault in refused.value.faults} == {"what", "spill_over"}
