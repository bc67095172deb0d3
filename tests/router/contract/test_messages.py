"""Messages of routers of another release: recorded ones are read, and what they do not know is ignored."""

import json
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from router.contract.messages import Message

RECORDED = [json.loads(line) for line in (Path(__file__).parent / "messages.jsonl").read_text().splitlines()]
"""One of each kind, as the first release sent it in which each field was there. Never edited: a new field needs a default."""


class Envelope(msgspec.Struct):
    fact: Message


def read(message: dict[str, Any]) -> Message:
    return msgspec.json.decode(json.dumps(message), type=Envelope).fact


def with_more_fields(value: Any) -> Any:
    """A message of a later release: each of its objects has a field that this release does not know."""
    if isinstance(value, dict):
        is_by_name = all(isinstance(each, dict) for each in value.values()) and value  # targets by their names
        return {name: with_more_fields(each) for name, each in value.items()} | ({} if is_by_name else {"of later": [1]})
    return [with_more_fields(each) for each in value] if isinstance(value, list) else value


def test_there_is_a_recorded_message_of_each_kind():
    kinds = {kind.__struct_config__.tag for kind in get_args(Message)}

    assert {message["fact"]["type"] for message in RECORDED} == kinds


@pytest.mark.parametrize("message", RECORDED, ids=lambda message: message["fact"]["type"])
def test_a_recorded_message_is_read_with_and_without_fields_of_a_later_release(message):
    assert msgspec.to_builtins(read(message))["type"] == message["fact"]["type"]

    assert read(with_more_fields(message)) == read(message)
