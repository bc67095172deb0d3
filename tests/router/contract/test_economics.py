"""The settings of the decision, and what follows from them."""

import pytest
from msgspec.structs import replace

from tests.tools.exchanges import ECONOMICS


def test_the_prior_is_the_log_odds_of_the_base_rate():
    assert replace(ECONOMICS, base_rate=0.5).prior == 0.0
    assert replace(ECONOMICS, base_rate=0.75).prior == pytest.approx(1.0986, abs=1e-4)


def test_a_second_is_worth_its_share_of_an_hour():
    assert replace(ECONOMICS, value_of_time_usd_per_hour=36.0).usd_per_second == pytest.approx(0.01)
