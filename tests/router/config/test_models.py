"""The settings themselves: what they take, and that each says what it does."""

import tomllib
from pathlib import Path

from router.config.models import RELEASE, Config, LedgerSettings
from router.config.settings import field_notes, fields_of, inner_block
from router.contract.block import Block


def blocks_in(kind: type) -> set[type]:
    inner = filter(None, map(inner_block, fields_of(kind).values()))
    return {kind}.union(*map(blocks_in, inner))


def test_every_block_is_frozen_takes_no_unknown_key_and_explains_each_setting(subtests):
    blocks = blocks_in(Config)

    assert len(blocks) > 20
    for kind in sorted(blocks, key=lambda kind: kind.__name__):
        with subtests.test(kind=kind):
            if issubclass(kind, Block):
                assert kind.__struct_config__.frozen
            elif hasattr(kind, "model_config"):
                assert kind.model_config["frozen"]
                assert kind.model_config["extra"] == "forbid"
            assert set(field_notes(kind)) >= set(fields_of(kind))


def test_a_ledger_may_have_no_path():
    assert LedgerSettings(path=None).path is None


def test_the_release_that_a_file_may_name_is_that_of_the_package():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())

    assert project["project"]["version"].split(".")[:2] == ["0", str(RELEASE)]
