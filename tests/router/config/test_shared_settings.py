"""Names that become part of keys and rows."""

import pytest
from pydantic import ValidationError

from router.config.shared_settings import SharedSettings, ValkeySettings


@pytest.mark.parametrize("name", ["", "a b", "a:b", "é", "x" * 65, "a\n"])
def test_a_name_that_cannot_be_part_of_a_key_is_refused(name):
    with pytest.raises(ValidationError, match="must have 1 to 64 letters"):
        SharedSettings(replica=name)
    with pytest.raises(ValidationError, match="must have 1 to 64 letters"):
        ValkeySettings(url="env:A", prefix=name)


def test_other_names_are_taken_as_they_are():
    assert SharedSettings(replica="blue-1.eu_west").replica == "blue-1.eu_west"
    assert ValkeySettings(url="env:A", prefix="team").prefix == "team"
