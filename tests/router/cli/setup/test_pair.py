"""What is said of the two tiers' models, by a public board and by the config."""

import pytest

from router.cli.setup.pair import describe_tiers, find_shown, look_at_pair, read_board
from router.config.load import check_config
from router.wiring.build import known_names

SPEEDS = {"fast": "{ttft_seconds: 0.3, tokens_per_second: 1000}", "deep": "{ttft_seconds: 1.0, tokens_per_second: 65}"}


def load(tmp_path, fast: str, deep: str, speeds=SPEEDS, instructions: str = ""):
    def tier(model: str, own: str) -> str:
        target = f'{{name: my-{own}, base_url: "http://127.0.0.1:9/v1", model: "{model}", window_tokens: 200000, typical: {speeds[own]}}}'
        text = f', instructions: "{instructions}"' if instructions and own == "fast" else ""
        return f"  {own}: {{targets: [{target}]{text}}}"

    return check_config(f"tiers:\n{tier(fast, 'fast')}\n{tier(deep, 'deep')}\n", "test", tmp_path, known_names())


def say(tmp_path, fast: str, deep: str, **more) -> list[str]:
    return [finding.text for finding in look_at_pair(load(tmp_path, fast, deep, **more))]


def test_a_weak_fast_model_is_said_to_bring_redos_with_where_that_comes_from(tmp_path):
    (found,) = look_at_pair(load(tmp_path, "openai/gpt-oss-120b", "claude-opus-4-5-20251101"))

    assert found.text == "fast has 0.35 of deep's score on the public board: expect redos"
    assert "gpt-oss-120b solved 26.0%" in found.hint
    assert read_board().name in found.hint
    assert read_board().worked_out in found.hint
    assert found.figures["score_ratio"] == 0.349
    assert found.figures["calls_ratio"] == 0.726


def test_a_deep_model_that_is_no_better_may_not_be_needed(tmp_path):
    assert say(tmp_path, "gpt-5", "gpt-5-mini") == ["deep is not better than fast on the public board: one tier may be enough"]


def test_a_fast_model_that_makes_many_calls_is_the_slower_one(tmp_path):
    slow = {"fast": "{ttft_seconds: 1.0, tokens_per_second: 65}", "deep": "{ttft_seconds: 1.0, tokens_per_second: 65}"}

    (said,) = say(tmp_path, "devstral-small", "claude-opus-4-5", speeds=slow)

    assert said.startswith("fast is the slower one: about 662 s for a task there, and deep 289 s")


def test_a_pair_that_pays_is_not_spoken_of(tmp_path):
    assert say(tmp_path, "gpt-5-mini", "claude-opus-4-5") == []


@pytest.mark.parametrize("unknown", ["gpt-6-luna", "gpt-5-mini-turbo", "my-gpt-oss-120b-finetune", "", "claude-opus-4-5b"])
def test_of_unknown_models_nothing_is_said(tmp_path, unknown):
    assert find_shown(unknown, read_board()) is None
    if unknown:
        assert say(tmp_path, unknown, "claude-opus-4-5") == say(tmp_path, "gpt-oss-120b", unknown) == []


def test_simulated_tiers_are_not_spoken_of(tmp_path):
    targets = "{targets: [{name: %s, adapter: simulated, typical: {ttft_seconds: 1, tokens_per_second: 9}}]}"
    config = f"tiers: {{fast: {targets % 'a'}, deep: {targets % 'b'}}}"

    assert look_at_pair(check_config(config, "test", tmp_path, known_names())) == []


@pytest.mark.parametrize(
    "name",
    [
        "gpt-5-mini",
        "GPT-5-Mini",
        "gpt-5-mini-2025-08-07",
        "openai/gpt-5-mini",
        "gpt-5-mini@latest",
        "openrouter/openai/gpt-5-mini:free",
    ],
)
def test_a_model_is_known_by_the_names_that_providers_have_for_it(name):
    assert find_shown(name, read_board()) is read_board().models["gpt-5-mini"]


def test_the_text_of_a_preset_is_shown_and_sent(tmp_path):
    loaded = load(tmp_path, "gpt-5-mini", "claude-opus-4-5", instructions="preset:minimal-edits")

    (shown,) = describe_tiers(loaded)

    assert shown.about == "fast"
    assert shown.text.startswith("instructions: preset:minimal-edits: Make the smallest change")
    fast, deep = (plan.fit.instructions for plan in loaded.targets)
    assert fast.startswith("Make the smallest change")
    assert deep == ""


@pytest.mark.parametrize(
    ("combine", "said"),
    [
        ("{plan: on}", "plan: deep plans, and fast edits"),
        (
            "{look: auto}",
            "look (auto): deep receives the ask and edits of turns that fast ended; its end waits for at most 20 s",
        ),
        ("{look: {when: always, tell: later, daily_usd: 0.5}}", "told later, as a job; $0.50 a day at most"),
    ],
)
def test_what_both_tiers_do_for_one_task_is_shown_with_what_deep_receives(tmp_path, combine, said):
    targets = "{targets: [{name: %s, adapter: simulated, typical: {ttft_seconds: 1, tokens_per_second: 9}}]}"
    config = f"combine: {combine}\ntiers: {{fast: {targets % 'a'}, deep: {targets % 'b'}}}"

    (shown,) = describe_tiers(check_config(config, "test", tmp_path, known_names()))

    assert (shown.about, said in shown.text) == ("combine", True), shown.text
