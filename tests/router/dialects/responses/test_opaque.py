"""Reasoning items."""

from msgspec.structs import replace

from router.contract.words import Dialect
from router.dialects.opaque import all_keys, without_foreign
from router.dialects.responses.opaque import opaque_keys, without_link, without_opaque, without_wrapped
from router.dialects.translate.envelope import wrap
from tests.tools.values import make_view

USER = {"role": "user", "content": "x"}


def reasoning(blob: str) -> dict:
    return {"type": "reasoning", "id": f"rs_{blob}", "summary": [], "encrypted_content": blob}


def test_foreign_reasoning_goes_whole_and_what_followed_it_is_unlinked():
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    items = [reasoning("mine"), {**call, "call_id": "b"}, {**output, "call_id": "b"}, reasoning("theirs"), call, output]
    view = make_view({"input": [USER, *items, USER]}, Dialect.RESPONSES)
    mine, theirs = all_keys(view)

    kept = without_foreign(replace(view, origins={mine: "spark", theirs: "sage"}), "spark")

    unlinked = {name: value for name, value in call.items() if name != "id"}
    assert kept == [USER, reasoning("mine"), {**call, "call_id": "b"}, {**output, "call_id": "b"}, unlinked, output, USER]


def test_calls_of_tools_that_the_client_runs_are_unlinked_too():
    calls = [{"type": f"{name}_call", "id": "hosts", "call_id": "c"} for name in ("shell", "apply_patch", "local_shell")]

    assert [without_link(call).get("id") for call in calls] == [None, None, "lsh_c"]  # the last is refused without one
    assert without_opaque([reasoning("theirs"), *calls], lambda key: True) == list(map(without_link, calls))


def test_every_kind_of_hidden_item_has_a_key_and_long_ones_are_told_apart_by_their_ends():
    kinds = [{"type": kind, "id": kind} for kind in ("reasoning", "compaction", "context_compaction")]
    long = [reasoning("a" * 999 + end) for end in "12"]
    keys = [key for item in [*kinds, *long, {"type": "message"}] for key in opaque_keys(item)]

    assert len(keys) == len(set(keys)) == 5


def test_reasoning_that_was_written_here_is_left_out_by_its_id_or_its_envelope():
    ours = {"type": "reasoning", "id": "rs_tandem_1", "summary": []}
    wrapped = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": wrap("spark", {})}

    assert without_wrapped([USER, ours, wrapped, reasoning("theirs")]) == [USER, reasoning("theirs")]
