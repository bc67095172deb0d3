"""Pages of what a response was given."""

import pytest
from openai.types.responses import ResponseItemList

from router.contract.errors import BadRequest
from router.responses.items import list_items, read_ids
from tests.router.responses.kept import CALL


def test_listed_items_without_an_id_get_the_same_one_each_time():
    given = [{"role": "user", "content": "a"}, {**CALL, "id": None}, {"type": "shell_call", "call_id": "s"}]

    first, second = (list_items("resp_1", given, None, 20, newest_first=False) for _ in range(2))

    assert first == second
    assert [item["id"].split("_")[0] for item in first["data"]] == ["msg", "fc", "sh"]
    assert first["has_more"] is False


def test_items_whose_host_gives_one_id_to_several_are_paged_to_their_end():
    given = [{"id": "msg_0", "role": "user", "content": text} for text in "abc"]

    heard, after = [], None
    for _ in range(4):
        page = list_items("resp_1", given, after, 1, newest_first=False)
        heard += [item["content"][0]["text"] for item in page["data"]]
        after = page["last_id"] or after

    assert heard == ["a", "b", "c"]


def test_an_empty_page_has_no_ends():
    page = list_items("resp_1", [{"id": "msg_1", "role": "user", "content": "a"}], "msg_1", 20, newest_first=True)

    assert (page["data"], page["first_id"], page["last_id"], page["has_more"]) == ([], None, None, False)


def test_an_item_that_is_not_there_cannot_be_paged_from():
    with pytest.raises(BadRequest, match="after"):
        list_items("resp_1", [], "msg_9", 20, newest_first=True)


def test_the_ids_of_items_are_read_where_they_are_names():
    items = [{"id": "msg_1"}, {"id": 7}, {"id": ""}, {}, "text"]

    assert read_ids(items, [{"id": "fc_1"}, {"id": "msg_1"}]) == {"msg_1", "fc_1"}


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        ({"role": "user", "content": "a"}, {"content": [{"type": "input_text", "text": "a"}]}),
        ({"role": "developer", "content": "a"}, {"content": [{"type": "input_text", "text": "a"}]}),
        ({"role": "user", "content": [{"type": "text", "text": "a"}]}, {"content": [{"type": "input_text", "text": "a"}]}),
        (
            {"role": "assistant", "content": "a"},
            {"status": "completed", "content": [{"type": "output_text", "text": "a", "annotations": []}]},
        ),
        (
            {"role": "assistant", "status": "incomplete", "content": [{"type": "output_text", "text": "a"}]},
            {"status": "incomplete", "content": [{"type": "output_text", "text": "a", "annotations": []}]},
        ),
        ({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}, {"status": "completed"}),
        (
            {"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]},
            {"content": [{"type": "input_image", "image_url": "data:,", "detail": "auto"}]},
        ),
        ({"type": "reasoning", "encrypted_content": "x"}, {"summary": []}),
        ({"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"}, {"status": "completed"}),
        ({"type": "function_call_output", "call_id": "c", "output": "a"}, {"status": "completed", "output": "a"}),
        ({"type": "custom_tool_call", "call_id": "c", "name": "sh", "input": "ls"}, {"status": "completed"}),
        ({"type": "custom_tool_call_output", "call_id": "c", "output": "a"}, {"status": "completed"}),
        ({"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": [], "env": {}}}, {}),
        ({"type": "compaction", "encrypted_content": "x"}, {}),
    ],
)
def test_what_a_request_may_leave_out_is_there_when_it_is_listed(given, becomes):
    page = list_items("resp_1", [given], None, 20, newest_first=False)

    ResponseItemList.model_validate(page)
    (item,) = page["data"]
    assert item.items() >= becomes.items()
    assert item.keys() - given.keys() <= {"id", "type", *becomes, "status"}
