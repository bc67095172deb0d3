"""The settings of a target: its name, its address and its options."""

import pytest
from pydantic import ValidationError

from router.config.target_settings import TargetSettings, find_instructions


@pytest.mark.parametrize("name", ["a", "gpt-5.5", "A_b.c-9", "x" * 64])
def test_a_target_may_have_a_name_of_letters_digits_and_three_marks(name):
    assert TargetSettings(name=name).name == name


@pytest.mark.parametrize("name", ["", "a b", "-a", ".a", "x" * 65, "a\n", "ä", "a/b"])
def test_a_name_that_a_header_or_a_path_would_break_on_is_refused(name):
    with pytest.raises(ValidationError, match="must be 1 to 64 letters from a to z, digits"):
        TargetSettings(name=name)


@pytest.mark.parametrize("url", ["ftp://x", "http://u:p@x/v1", "http://x/v1?key=1", "http://x/v1#a", "x"])
def test_an_address_is_a_plain_http_url(url):
    with pytest.raises(ValidationError, match="base_url"):
        TargetSettings(name="a", base_url=url)


def test_instructions_are_a_text_or_a_known_preset():
    assert find_instructions("Be brief.") == "Be brief."
    assert "smallest change" in find_instructions("preset:minimal-edits")
    with pytest.raises(ValueError, match=r'unknown preset "tiny"\. Known: preset:minimal-edits'):
        find_instructions("preset:tiny")
