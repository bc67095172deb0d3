"""Where the keys of a config are."""

import pytest

from router.config.faults import ConfigError
from router.config.key_place import find_keys
from router.wiring.build import known_names
from tests.conftest import SIMULATED


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
