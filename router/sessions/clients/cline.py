"""Cline."""

from router.sessions.clients.client import Client, PlanMarks

CLINE = Client(
    "cline",
    agents=("Cline/",),
    systems=("You are Cline",),
    wraps_words_in=("task", "feedback", "user_message", "answer"),
    result_mark="] Result:",
    replies_in=("[attempt_completion]", "[ask_followup_question", "[plan_mode_respond", "provided the following feedback"),
    needs_calls=True,
    tags=("environment_details",),
    starts=("# task_progress", "[ERROR] You did not use a tool in your previous response!"),
    plan=PlanMarks(on=("PLAN MODE",), off=("ACT MODE",), block_tag="environment_details", last_heading="# Current Mode\n"),
)
