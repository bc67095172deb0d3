"""Policies of one's own: opened, held to the contract, and switched off when one fails."""

from pathlib import Path
from typing import ClassVar

import pytest

from router.config.own_policies import PolicyUnusable
from router.contract.notices import Trouble
from router.contract.opinions import PolicyConfig
from router.wiring.own_policies import find_breaches, open_policy
from tests.tools.configs import load_text
from tests.tools.http import call, chat
from tests.tools.own_policy import NIGHT, OWN


@pytest.fixture
def write(tmp_path):
    return lambda text: (tmp_path / "night.py").write_text(text)


def test_an_installed_module_is_a_source_too(tmp_path, monkeypatch):
    (tmp_path / "night_of_a_package.py").write_text(NIGHT)
    monkeypatch.syspath_prepend(str(tmp_path))

    assert open_policy("night_of_a_package", is_package=True).name == "night"


@pytest.mark.parametrize(
    ("before", "after", "trouble"),
    [
        ("class NightPolicy:", "class NightPolicy", "SyntaxError"),
        ("import ClassVar", "import Classvar", "ImportError"),
        ("from typing", "import time\nfrom typing", "imports time"),
        ("from typing", "from os.path import join\nfrom typing", "imports os"),
        ("def judge", "def judges", "no classes with a method `judge` or `may`"),
        ('"night"\n', '"window"\n', "belongs to a policy of Tandem's own"),
        ('"night"\n', '""\n', "needs a `name`"),
        ("= NightConfig\n", "= None\n", "needs a `Config`"),
        ('    """Leans deep at night, when nobody waits."""\n', "", "needs a docstring"),
        ('    """The first hour of the night."""\n', "", "`from_hour` needs a sentence"),
        ("return (", "raise KeyError(5)\n        return (", "it raised KeyError: 5"),
        ("else ()", "else None", "judge returned None, not a tuple of opinions"),
        ('"it is night"),) if', '""),) if True or', "without `because`"),
        ("Lean(0.5, ", "Lean(vars(self).__setitem__('n', vars(self).get('n', 0) + 1) or self.n / 9, ", "other opinions"),
    ],
)
def test_what_breaks_the_contract_is_switched_off_and_said(tmp_path, write, before, after, trouble):
    text = NIGHT.replace(before, after, 1)
    assert text != NIGHT
    write(text)

    loaded = load_text(OWN, tmp_path)

    (own,) = loaded.own_policies
    assert own.kind is None
    assert trouble in own.trouble
    assert loaded.switched_off == [f"policy night: switched off. ./night.py: {own.trouble}"]
    assert loaded.switched_off[0] in loaded.warnings


def test_two_policies_in_a_file_are_one_too_many(tmp_path, write):
    write(NIGHT + NIGHT.partition("\n\n\n")[2].replace("Night", "Day"))

    with pytest.raises(PolicyUnusable, match="it has 2 classes"):
        open_policy(str(tmp_path / "night.py"), is_package=False)


def test_a_policy_of_ours_breaks_nothing_under_its_own_name():
    class Named:
        """A policy that takes a name."""

        name: ClassVar[str] = "effort"
        Config: ClassVar[type[PolicyConfig]] = PolicyConfig

    assert "belongs to" in next(find_breaches(Named))


async def test_it_is_asked_and_shown_and_one_that_raises_is_asked_no_more(tmp_path, write, start, listen):
    raises = 'if request.body.get("user") == "eve":\n            raise ValueError("no")\n        return ('
    write(NIGHT.replace("return (", raises))
    (tmp_path / "config.yaml").write_text(OWN)
    tandem = await start(OWN)

    served = [await call(tandem.port, "/v1/chat/completions", chat(user=name)) for name in ("ada", "eve", "ada")]

    assert [reply.status for reply in served] == [200, 200, 200]
    (notice,) = tandem.built.notices()
    assert (notice.kind, notice.subject) == (Trouble.POLICY_OFF, "night")
    assert "night.py: ValueError: no" in notice.text

    await tandem.built.reloader.reload()
    assert tandem.built.notices() == ()


async def test_a_reload_takes_the_text_of_the_file_as_it_is_now(tmp_path, write, start):
    write(NIGHT)
    (tmp_path / "config.yaml").write_text(OWN)
    tandem = await start(OWN)
    write(NIGHT.replace("Lean(0.5", "Lean(0.7"))

    done = await tandem.built.reloader.reload()

    assert done.changes.applied == ("policies",)


def test_the_example_of_the_page_can_be_used(tmp_path, write):
    page = Path(__file__).parents[3] / "docs" / "how-it-works" / "add-a-policy.md"
    write(page.read_text().partition("```python\n")[2].partition("```")[0])

    assert open_policy(str(tmp_path / "night.py"), is_package=False).name == "night"


HOOK = (
    NIGHT.partition("    def judge")[0].replace("RequestView, Signals", "RequestView, Target")
    + """
    def may(self, request: RequestView, target: Target) -> str | None:
        user = request.body.get("user")
        if user == "eve":
            raise ValueError("no")
        return "bob may not use deep" if user == "bob" and target.tier == "deep" else None
"""
)


async def test_a_hook_refuses_a_request_before_it_is_sent_and_nobody_else_serves_it(tmp_path, write, start):
    write(HOOK)
    (tmp_path / "config.yaml").write_text(OWN)
    tandem = await start(OWN)

    async def ask(name, tier):
        return await call(tandem.port, "/v1/chat/completions", chat(user=name, model=tier))

    refused = await ask("bob", "deep")
    assert (refused.status, refused.json["error"]["code"]) == (403, "not_permitted")
    assert "bob may not use deep (night)" in refused.json["error"]["message"]
    assert [(await ask(*who)).status for who in (("bob", "fast"), ("ada", "deep"))] == [200, 200]

    assert (await ask("eve", "deep")).status == 200
    assert [notice.kind for notice in tandem.built.notices()] == [Trouble.POLICY_OFF]
    assert (await ask("bob", "deep")).status == 200


@pytest.mark.parametrize(
    ("answer", "trouble"), [("return True", "may returned True"), ("raise KeyError(1)", "it raised KeyError")]
)
def test_a_hook_is_held_to_its_contract(tmp_path, write, answer, trouble):
    write(HOOK.replace("        user =", f"        {answer}\n        user ="))

    (own,) = load_text(OWN, tmp_path).own_policies

    assert trouble in own.trouble
