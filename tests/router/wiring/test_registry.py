"""Names of policies and adapters, and what asking for one loads."""

import subprocess
import sys

import pytest

from router.wiring.registry import ADAPTERS, POLICIES


def test_every_name_is_that_of_its_class():
    assert {name: kind.name for name, kind in ADAPTERS.items()} == {name: name for name in ADAPTERS}
    assert {name: kind.name for name, kind in POLICIES.items()} == {name: name for name in POLICIES}
    assert len(ADAPTERS) == 4


def test_an_unknown_adapter_is_none():
    assert ADAPTERS.get("carrier_pigeon") is None
    with pytest.raises(KeyError):
        ADAPTERS["carrier_pigeon"]


def test_an_adapter_is_loaded_when_it_is_asked_for():
    program = """
import sys
from router.wiring.registry import ADAPTERS
known = list(ADAPTERS)
print([name for name in sys.modules if name.startswith("adapters.")], ADAPTERS["openai_http"].__module__)
"""

    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[] adapters.openai_http\n"
