"""What commands share."""

import argparse
import os

import pytest

from router.cli import Ended
from router.cli.common import (
    Reading,
    add_config_argument,
    add_ledger_switch,
    command_name,
    common_dialect,
    free_backup,
    load_or_end,
    number_between,
    print_json,
    readable,
    whole_number_between,
)
from router.contract.words import Dialect
from tests.conftest import SIMULATED
from tests.tools.configs import load_text


def loaded_with(fast: str, deep: str, folder):
    adapters = {"chat": "openai_http", "responses": "openai_http", "messages": "anthropic_http"}

    def target(name: str, dialect: str) -> str:
        return f"{{name: {name}, adapter: {adapters[dialect]}, dialect: {dialect}, base_url: 'http://h/v1', model: m}}"

    text = f"tiers: {{fast: {{targets: [{target('a', fast)}]}}, deep: {{targets: [{target('b', deep)}]}}}}"
    return load_text(text, folder)


@pytest.mark.parametrize(
    ("fast", "deep", "common"),
    [
        ("chat", "chat", Dialect.CHAT),
        ("messages", "messages", Dialect.MESSAGES),
        ("responses", "responses", Dialect.RESPONSES),
        ("messages", "responses", Dialect.MESSAGES),
        ("responses", "chat", Dialect.CHAT),
    ],
)
def test_examples_are_in_a_dialect_of_both_tiers_or_else_of_one(tmp_path, fast, deep, common):
    assert common_dialect(loaded_with(fast, deep, tmp_path)) is common


def test_every_fault_of_a_config_is_told(here):
    (here / "odd.yaml").write_text("what: 1\ntiers: {fast: {targets: []}}\n")

    with pytest.raises(Ended, match="(?s)odd.yaml: 3 problems.*what: no such setting") as ended:
        load_or_end("odd.yaml")

    assert "tiers.deep: missing" in ended.value.text


def test_the_config_may_be_named(here):
    parser = argparse.ArgumentParser()
    add_config_argument(parser)

    assert parser.parse_args(["--config", "x.yaml"]).config == "x.yaml"
    assert parser.parse_args([]).config is None


@pytest.mark.parametrize("text", ["x", "0", "601", "nan", "1_0", "٣", ""])
def test_a_number_outside_its_range_is_refused_with_the_range(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a number from 0.1 to 600"):
        number_between(0.1, 600)(text)


def test_a_number_in_its_range_is_read():
    assert number_between(0.1, 600)("2.5") == 2.5
    assert whole_number_between(0, 65_535)("65535") == 65_535
    with pytest.raises(argparse.ArgumentTypeError, match="is not a number from 0 to 65535"):
        whole_number_between(0, 65_535)("2.5")


def test_data_for_a_program_is_json(capsys):
    print_json({"a": [1]})

    assert capsys.readouterr().out == '{\n  "a": [\n    1\n  ]\n}\n'


@pytest.mark.parametrize(
    ("called", "named"),
    [
        ("/usr/bin/pytest", "tandem"),
        (".venv/bin/tandem", ".venv/bin/tandem"),
        (".cache/uv/archive/x/bin/tandem", "tandem"),
        ("tandem", "tandem"),
        ("/somewhere/else/bin/tandem", "tandem"),
        ("/x/router/cli/__main__.py", "tandem"),
    ],
)
def test_a_hint_names_the_command_as_it_can_be_pasted(here, monkeypatch, called, named):
    monkeypatch.setattr("sys.argv", [called])

    assert command_name() == named


def test_a_command_below_this_folder_is_named_from_here(here, monkeypatch):
    monkeypatch.setattr("sys.argv", [os.path.join(str(here), "bin", "tandem")])

    assert command_name() == "bin/tandem"


def test_a_backup_never_takes_the_place_of_another(tmp_path):
    path = tmp_path / "config.yaml"

    names = []
    for _ in range(3):
        backup = free_backup(path)
        backup.touch()
        names.append(backup.name)

    assert names == ["config.yaml.bak", "config.yaml.bak.1", "config.yaml.bak.2"]


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        ("/home/me/models/Smol.Q4_1.gguf", "Smol.Q4_1"),
        ("C:\\models\\Smol.gguf", "Smol"),
        ("./Smol.gguf", "Smol"),
        ("Qwen/Qwen3-Coder", "Qwen/Qwen3-Coder"),
        ("model.gguf", "model.gguf"),
        ("gpt-6-luna", "gpt-6-luna"),
    ],
)
def test_of_a_path_people_see_the_files_name(model, shown):
    assert readable(model) == shown


def test_a_reload_reads_the_file_of_the_start(tmp_path):
    (tmp_path / "config.yaml").write_text(SIMULATED)

    assert Reading(tmp_path / "config.yaml", None).load().ledger_path == tmp_path / "test.db"


@pytest.mark.parametrize(("given", "ledger"), [([], "on"), (["--no-ledger"], "off")])
def test_a_record_is_kept_unless_it_is_switched_off(given, ledger):
    parser = argparse.ArgumentParser()
    add_ledger_switch(parser)

    assert parser.parse_args(given).ledger == ledger
