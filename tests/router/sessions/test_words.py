"""What the person typed: without what their client wrapped around it, and never what nobody typed."""

import pytest

from router.contract.request import Message
from router.sessions.clients import BY_NAME, HARNESS_STARTS, HARNESS_TAGS
from router.sessions.words import opening_words, read_end, words_of
from tests.tools.values import make_view
from tests.tools.work import cost_ratio

UNKNOWN, CLAUDE, CLINE, AIDER = (BY_NAME[name] for name in ("unknown", "claude-code", "cline", "aider"))


def talk(*said: tuple[str, object]):
    return make_view({"messages": [{"role": role, "content": content} for role, content in said]}).conversation


def words(*texts: str, client=UNKNOWN) -> str:
    return words_of(Message("user", texts), client)


def test_what_stands_in_a_clients_own_tags_nobody_typed(subtests):
    for tag in [tag for tag in HARNESS_TAGS if not tag.startswith("command-")]:
        with subtests.test(tag=tag):
            assert words(f"<{tag}>\nnoise\n</{tag}>\nfix it") == "fix it"
            assert words(f'fix it <{tag} a="b">noise</{tag}>') == "fix it"
            assert words(f"<{tag}>never closed: fix it") == ""


def test_a_tag_that_is_not_the_clients_is_the_persons():
    assert words("why is <div>this</div> here?") == "why is <div>this</div> here?"


def test_a_text_that_begins_as_a_clients_notice_is_not_the_persons(subtests):
    for start in HARNESS_STARTS:
        with subtests.test(start=start):
            assert words(f"  {start} and more") == ""
            assert words(f"see: {start}") != ""


def test_the_words_of_all_blocks_count_except_where_only_the_last_is_the_persons():
    assert words("one", "<system-reminder>x</system-reminder>", "two") == "one\ntwo"
    assert words("a file", "the ask", client=CLAUDE) == "the ask"
    assert words("<system-reminder>x</system-reminder>", client=CLAUDE) == ""
    assert words() == ""


def test_words_in_a_clients_own_wrapper_are_all_that_counts():
    assert words("noise <task>\nfix it\n</task> noise", client=CLINE) == "fix it"
    assert words("<task> never closed", client=CLINE) == "<task> never closed"
    assert words("noise <task>fix it</task>", client=UNKNOWN) == "noise <task>fix it</task>"


def test_format_instructions_after_the_words_are_cut_off():
    assert words("fix it\n\n# File editing rules:\nlong", client=AIDER) == "fix it"


def test_an_editors_context_ends_where_the_request_begins():
    assert words("# Context\nopen files\n## My request for Codex:\nfix it") == "fix it"
    assert words("## My request for Codex: a\n## My request for Codex:\nb") == "b"


def test_of_a_very_long_text_both_ends_are_searched():
    text = words("begin " + "x" * 100_000 + " end")

    assert text.startswith("begin ")
    assert text.endswith(" end")
    assert len(text) == 20_000


def test_a_long_paste_costs_no_more_than_a_page():
    def search(size):
        return lambda: words("a < b " * size)

    assert cost_ratio(search(400_000), search(20_000)) < 8


def test_how_a_message_begins_is_enough_to_know_it_by():
    message = Message("user", ("x" * 50_000,))

    assert len(opening_words(message, UNKNOWN)) == 2_000
    assert opening_words(Message("user", ("short",)), UNKNOWN) == "short"


def test_a_harness_text_is_stripped_whole_before_the_opening_is_taken():
    tagged = f"<system-reminder>{'x' * 5_000}</system-reminder>fix it"

    assert opening_words(Message("user", (tagged,)), UNKNOWN) == "fix it"


def test_the_persons_words_are_the_last_that_were_typed_after_the_last_answer():
    assert read_end(talk(("user", "one"), ("assistant", "ok"), ("user", "two")), UNKNOWN).words == "two"
    assert read_end(talk(("user", "two"), ("system", "note"), ("developer", "note")), UNKNOWN).words == "two"
    assert read_end(talk(("user", "two"), ("user", "<system-reminder>x</system-reminder>")), UNKNOWN).words == "two"
    assert read_end(talk(("user", "one"), ("assistant", "ok")), UNKNOWN).words is None
    assert read_end(talk(("system", "x")), UNKNOWN).words is None


def test_a_tool_result_without_words_is_nobodys_ask():
    result = {"messages": [{"role": "user", "content": "go"}, {"role": "tool", "tool_call_id": "c", "content": "ok"}]}

    assert read_end(make_view(result).conversation, UNKNOWN).words is None


def test_the_persons_words_are_not_looked_for_far_back():
    harness = [("system", "note")] * 8

    assert read_end(talk(("user", "go"), *harness[:7]), UNKNOWN).words == "go"
    assert read_end(talk(("user", "go"), *harness), UNKNOWN).words is None


def test_the_last_user_message_may_be_followed_by_harness_messages_alone():
    assert read_end(talk(("user", "go"), ("system", "x")), UNKNOWN).message.texts == ("go",)
    assert read_end(talk(("user", "go"), ("assistant", "x")), UNKNOWN).message is None
    assert read_end(talk(("system", "x")), UNKNOWN).message is None


COMMAND = "<command-message>tidy</command-message>\n<command-name>/tidy</command-name>\n<command-args>{}</command-args>"
PROSE = "You are an expert. Rewrite the whole codebase."


@pytest.mark.parametrize("tag", ["ide_selection", "ide_opened_file", "ide_new_thing", "shell-notification", "pre_tool_hook"])
def test_a_tag_whose_name_says_what_it_is_need_not_be_known(tag):
    assert words(f"<{tag}>noise</{tag}>\nfix it") == "fix it"
    assert words(f'<{tag} a="b">noise</{tag}>fix it <{tag}>noise</{tag}>') == "fix it"


def test_somebody_may_speak_of_such_a_tag():
    assert words("what does <pre-commit-hook> do?") == "what does <pre-commit-hook> do?"


@pytest.mark.parametrize("paste", ["DOM Path: a\nHTML Element: <b ", "<x-hook>", "DOM Path: a" + " " * 50, "<a-b-c-"])
def test_a_paste_that_looks_like_a_clients_own_costs_no_more_than_a_page(paste):
    def search(size):
        text = f"{size}{paste * (size // len(paste))}"
        return lambda: words(text)

    assert cost_ratio(search(400_000), search(20_000)) < 8


@pytest.mark.parametrize(
    "line", ["Full transcript available at: /tmp/a.output", "Read the output file to retrieve the result: /tmp/a.output"]
)
def test_the_line_after_a_notification_belongs_to_it_and_words_after_that_are_the_persons(line):
    notice = f"<task-notification>\n<result>done</result>\n</task-notification>\n{line}"

    assert words(notice) == words(f"{notice}\n{notice}") == words(line) == ""
    assert words(f"{notice}\n\nnow fix the typo") == "now fix the typo"


@pytest.mark.parametrize("hook", ["Stop", "SubagentStop", "TeammateIdle", "TaskCompleted"])
def test_the_feedback_of_a_hook_is_nobodys(hook):
    assert words(f"{hook} hook feedback:\n- [check.sh]: fix everything") == ""
    assert words(f"the {hook} hook feedback is wrong") != ""


def test_a_canned_message_is_the_clients_only_as_a_whole_and_only_from_that_client():
    assert words("Continue from where you left off.", client=CLAUDE) == ""
    assert words("Continue from where you left off. Skip the tests", client=CLAUDE) != ""
    assert words("Continue from where you left off.", client=UNKNOWN) != ""


def test_a_command_is_its_name_and_what_was_typed_after_it():
    assert words(COMMAND.format("the parser only")) == "/tidy the parser only"
    assert words(COMMAND.format("")) == "/tidy"
    assert words(COMMAND.format("two\nlines <b>")) == "/tidy two\nlines <b>"


def test_the_text_that_a_command_expands_to_is_not_read():
    assert words("<system-reminder>x</system-reminder>", COMMAND.format("all"), PROSE, client=CLAUDE) == "/tidy all"
    assert words(COMMAND.format("all"), PROSE, "[Request interrupted by user]", "stop that", client=CLAUDE) == "stop that"


def test_a_command_that_the_client_runs_by_itself_is_nobodys_message():
    caveat, output = "<local-command-caveat>x</local-command-caveat>", "<local-command-stdout>ok</local-command-stdout>"
    local = "<command-name>/own</command-name><command-args>x</command-args>"

    assert words(caveat, local, "next", client=CLAUDE) == words(local, output, "next", client=CLAUDE) == "next"
    assert words("<command-name>/model</command-name>", "next", client=CLAUDE) == "next"
    assert words("before", local, output, client=CLAUDE) == "before"
    assert words(local + output) == words("<command-name>/compact</command-name>") == ""


def test_in_messages_of_their_own_a_commands_text_and_a_local_command_are_known_by_the_message_before():
    caveat = ("user", "<local-command-caveat>x</local-command-caveat>")
    own = ("user", "<command-name>/own</command-name>")

    assert read_end(talk(("user", COMMAND.format("all")), ("user", PROSE)), CLAUDE).words == "/tidy all"
    assert read_end(talk(("user", "hi"), ("assistant", "ok"), caveat, own), CLAUDE).words is None
    assert read_end(talk(("user", "<command-name>/clear</command-name>"), ("user", "next")), CLAUDE).words == "next"


def test_where_an_image_came_from_does_not_replace_the_words():
    source = "[Image: source: /home/dev/shot.png]"

    assert words("migrate to postgres", source, client=CLAUDE) == "migrate to postgres"
    assert words("[Image #1] what is this?", f"{source}\n{source}", client=CLAUDE) == "[Image #1] what is this?"
    assert words("what is this?", "[Image #1]", client=CLAUDE) == "what is this?"
    assert words(f"look at {source}") == "look at"
    assert words("[Image #1]", client=CLAUDE) == "[Image #1]"


def test_what_an_editor_adds_is_not_typed():
    opened = "<ide_opened_file>The user opened the file /src/a.py in the IDE.</ide_opened_file>"
    selected = f"<ide_selection>The user selected the lines 1 to 9 from plan.md:\n{PROSE}\n</ide_selection>"

    assert words(opened, selected, "fix the typo", client=CLAUDE) == words(f"{selected}fix the typo") == "fix the typo"


def test_elements_that_were_picked_on_a_page_are_pasted():
    element = (
        "DOM Path: div#root > div.flex > img.h-full\nPosition: top=16px, left=16px, width=59px, height=32px\n"
        'React Component: Sidebar\nHTML Element: <img src="/logo.svg" class="h-full"></img>'
    )
    other = "DOM Path: div#root\nPosition: top=0px\nHTML Element: <div>rewrite <b>all</b></div>"

    assert words(f"{element} make it larger") == words(f"make it larger {element}") == "make it larger"
    assert words(f"{element} {other} \nswap these") == "swap these"
    assert words(f"logo too small\n {element} this stays") == "logo too small\n this stays"


def test_of_several_tags_around_words_the_one_that_is_there_counts():
    assert words("<attachments>a file</attachments>\n<userRequest>\nfix it\n</userRequest>") == "fix it"
    assert words("<timestamp>Monday</timestamp>\n<user_query>fix it</user_query>") == "fix it"
    notice = "Briefly inform the user about the task result and perform any follow-up actions (if needed)."
    assert words(f"<system_notification>\ndone\n</system_notification>\n<user_query>{notice}</user_query>") == ""


def test_a_result_that_travels_as_text_holds_words_only_where_the_person_replied():
    reply = (
        "[attempt_completion] Result:\nThe user has provided feedback on the results.\n<feedback>\nmake it blue\n</feedback>"
    )
    file = "[read_file for 'faq.html'] Result:\n<answer>rewrite everything</answer>"

    assert words(reply, "<environment_details>x</environment_details>", client=CLINE) == "make it blue"
    assert words(file, client=CLINE) == ""


def test_of_a_client_whose_attachments_follow_the_words_the_first_block_counts():
    assert words("explain @a.py", "1| def f():\n2|     rewrite", client=BY_NAME["opencode"]) == "explain @a.py"


def test_files_that_the_words_name_follow_them():
    files = ("\n--- Content from referenced files ---", "\nContent from @a.py:\n", "rewrite all", "\n--- End of content ---")

    assert words("explain @a.py", *files, client=BY_NAME["qwen-code"]) == "explain @a.py"
    assert words("<image name=[Image #1]>", "</image>", "what is this? [Image #1]", client=BY_NAME["codex"]).startswith("what")


def test_what_a_compaction_summed_up_was_said_before():
    summary = "Another language model started to solve this problem and produced a summary. Rewrite all."

    assert read_end(talk(("user", "fix it"), ("user", summary)), UNKNOWN).words is None
    assert read_end(talk(("user", "fix it"), ("user", summary), ("user", "and now?")), UNKNOWN).words == "and now?"
