"""The JSON schema of `config.yaml`, from the models and their docstrings, for editors.

`tandem check --schema` prints it; `docs/generate.py` writes `config.schema.json`.
"""

import json
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from router.config.faults import Known
from router.config.models import Config
from router.config.own_policies import OwnPolicySettings
from router.config.settings import field_notes, fields_of, inner_block

_Node = dict[str, Any]


def write_schema(known: Known) -> str:
    policies = dict(known.policies)
    adapters = {name: adapter.Settings for name, adapter in known.adapters.items()}
    kinds: list[type[BaseModel]] = [Config, *policies.values(), *set(adapters.values())]
    refs, content = models_json_schema([(kind, "validation") for kind in kinds])
    places: dict[type, _Node] = {kind: refs[kind, "validation"] for kind in kinds}
    blocks: _Node = content["$defs"]
    for kind in places:
        _describe(places[kind], kind, blocks)
    whole = blocks.pop("Config")
    settings, target = whole["properties"], blocks["TargetSettings"]
    settings["policies"]["items"] = _one_policy({name: places[kind] for name, kind in policies.items()})
    settings["rules"]["items"] = _find(places[policies["rules"]], blocks)["properties"]["rules"]["items"]
    target["properties"]["adapter"] |= {"enum": list(adapters)}
    target["allOf"] = [_options_of(name, places[kind], target) for name, kind in adapters.items()]
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole, "title": "Tandem", "$defs": blocks}
    return json.dumps(_clean(schema), indent=1, ensure_ascii=False) + "\n"


def _one_policy(places: dict[str, _Node]) -> _Node:
    named = {name: {"anyOf": [place, {"type": "null"}]} for name, place in places.items()}
    block = {"type": "object", "properties": named, "additionalProperties": False, "minProperties": 1, "maxProperties": 1}
    return {"anyOf": [{"enum": list(places)}, block, OwnPolicySettings.model_json_schema()]}


def _options_of(name: str, place: _Node, target: _Node) -> _Node:
    adapter: _Node = {"properties": {"adapter": {"const": name}}}
    if name != target["properties"]["adapter"]["default"]:
        adapter["required"] = ["adapter"]
    return {"if": adapter, "then": {"properties": {"options": {"anyOf": [place, {"type": "null"}]}}}}


def _describe(node: _Node, kind: type, blocks: _Node) -> None:
    settings, notes = _find(node, blocks)["properties"], field_notes(kind)
    for name, field in fields_of(kind).items():
        settings[name]["description"] = notes.get(name, "")
        if inner := inner_block(field):
            _describe(settings[name], inner, blocks)


def _find(node: _Node, blocks: _Node) -> _Node:
    """The schema of a setting's block, through references, choices and lists."""
    if "$ref" in node:
        return _find(blocks[node["$ref"].rpartition("/")[2]], blocks)
    if "properties" in node:
        return node
    return _find(node["items"] if "items" in node else node["anyOf"][0], blocks)


def _clean(node: Any) -> Any:
    """Drop pydantic's titles, and defaults of whole blocks."""
    if isinstance(node, list):
        return [_clean(part) for part in node]
    if not isinstance(node, dict):
        return node
    if "properties" in node:
        node = {**node, "properties": {name: _clean(part) for name, part in node["properties"].items()}}
    return {
        name: part if name == "properties" else _clean(part)
        for name, part in node.items()
        if not (name == "title" and part != "Tandem") and not (name == "default" and isinstance(part, dict))
    }
