"""The schema for editors: shipped, complete, and true of every config that the docs show."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from router.cli import main
from router.config.load import default_text
from router.config.models import Config
from router.config.parsing import parse
from router.config.reading import schema_path
from router.wiring.registry import ADAPTERS
from tests.conftest import SIMULATED
from tests.tools.page_configs import configs_on

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = json.loads(schema_path().read_text())
CHECK = Draft202012Validator(SCHEMA)
TARGET = {name: part for name, part in SCHEMA["$defs"]["TargetSettings"].items() if name != "allOf"}
"""A target, without what `options` holds for each adapter."""


def errors_in(text: str) -> list[str]:
    content = json.loads(json.dumps(parse(text, "test"), default=str))  # YAML's dates are text to an editor
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in CHECK.iter_errors(content)]


def test_check_prints_the_schema_that_is_shipped(capsys):
    assert main(["check", "--schema"]) == 0

    assert capsys.readouterr().out == schema_path().read_text(), "run docs/generate.py"
    Draft202012Validator.check_schema(SCHEMA)


def test_every_config_of_the_docs_is_valid(subtests):
    texts = {str(path): path.read_text() for path in [ROOT / "config.yaml", *(ROOT / "docs").rglob("config*.yaml")]}
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        texts |= {f"{page.name} {number}": block for number, block in enumerate(configs_on(page))}

    assert len(texts) > 12
    for name, text in texts.items():
        with subtests.test(name=name):
            assert errors_in(text) == []


@pytest.mark.parametrize(
    ("extra", "place"),
    [
        ("spill_over: 7", "spill_over: "),
        ("decision: {redo_factor: 3}", "decision: "),
        ("decision: {preference: speed}", "decision: "),
        ("limits: {max_headers: 1}", "limits.max_headers: "),
        ("policies: [{window: {output_reserve: 3}}]", "policies.0: "),
        ("policies: [oracle]", "policies.0: "),
        ("rules: [{when: {wrds: x}, tier: fast}]", "rules.0.when: "),
        ("shared: {valkey: {timeout_ms: 1}}", "shared.valkey: "),
    ],
)
def test_what_check_refuses_the_schema_refuses(extra, place):
    assert [error for error in errors_in(f"{SIMULATED}{extra}\n") if error.startswith(place)]


def test_the_options_of_a_target_are_those_of_its_adapter():
    target = "tiers: {{fast: {{targets: [{{name: a, adapter: {}, options: {{answer_tokens: 3}}}}]}}, deep: {{targets: [{{name: b}}]}}}}"

    assert errors_in(target.format("simulated")) == []
    assert all(errors_in(target.format(name)) for name in ADAPTERS if name != "simulated")


def test_every_setting_has_its_sentence():
    def unexplained(node: object, path: str) -> Iterator[str]:
        if not isinstance(node, dict) or path == ".properties.policies":
            return
        yield from (f"{path}.{name}" for name, setting in node.get("properties", {}).items() if not setting.get("description"))
        for name, inner in node.items():
            for part in inner if isinstance(inner, list) else [inner]:
                yield from unexplained(part, f"{path}.{name}")

    assert list(unexplained({**SCHEMA, "$defs": {**SCHEMA["$defs"], "TargetSettings": TARGET}}, "")) == []
    assert set(SCHEMA["properties"]) == set(Config.model_fields)


def test_the_config_of_a_fresh_checkout_is_the_built_in_default():
    assert (ROOT / "config.yaml").read_text() == schema_path().with_name("default.yaml").read_text()


def test_the_shipped_config_is_short_leads_editors_to_the_schema_and_repeats_no_default():
    text = (ROOT / "config.yaml").read_text()
    settings = Config.model_validate(yaml.safe_load(text))

    assert len(text.splitlines()) <= 45
    assert (ROOT / text.splitlines()[0].partition("$schema=")[2]) == schema_path()
    assert default_text().splitlines()[0] == f"# yaml-language-server: $schema={schema_path().as_uri()}"
    assert settings.model_dump(exclude_unset=True) == settings.model_dump(exclude_defaults=True)
    for target in (*settings.tiers.fast.targets, *settings.tiers.deep.targets):
        options = ADAPTERS[target.adapter].Settings(**(target.options or {}))
        assert options.model_dump(exclude_unset=True) == options.model_dump(exclude_defaults=True)
