"""The docs say what the code does: generated pages are fresh, examples work, links lead somewhere."""

import argparse
import importlib
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from router import api
from router.cli import COMMANDS, build_parser, main
from router.cli.serving import LONG_EXAMPLE, QUICK_EXAMPLE
from router.config.load import check_config
from router.config.removed import read_removed
from router.contract.notices import Trouble
from router.contract.words import PassedRoute
from router.edge.admission import Admission
from router.edge.logins import PAGE_HEADER
from router.edge.routes import ROUTES, SOCKET_PATHS
from router.edge.websocket.messages import BUSY
from router.wiring.build import known_names
from router.wiring.built import Built
from router.wiring.panels import list_panels
from tests.tools.edge import FakeRoad
from tests.tools.page_configs import configs_on

ROOT = Path(__file__).resolve().parents[1]
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
"""Tells the site about a page, and is not read."""
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
sys.path.insert(0, str(ROOT / "docs"))
facts, tables = importlib.import_module("facts"), importlib.import_module("tables")


REFERENCE = {page.stem: page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md")}


def test_every_setting_has_a_sentence():
    kinds = [tables.models.Config, tables.key_file.CallerSettings]
    kinds += [kind.Config for kind in tables.POLICIES.values()] + [kind.Settings for kind in tables.ADAPTERS.values()]

    assert [setting.path for kind in kinds for setting in tables.list_settings(kind) if not setting.note] == []


def test_the_reference_names_everything_that_the_code_has(subtests):
    settings = {setting.path.removeprefix(tables.TARGETS) for setting in tables.list_settings(tables.models.Config)}
    settings |= {setting.path for setting in tables.list_settings(tables.key_file.CallerSettings, "callers.NAME.")}
    policies = [tables.list_settings(kind.Config, f"{name}.") for name, kind in tables.POLICIES.items()]
    adapters = [tables.list_settings(kind.Settings, "options.") for kind in tables.ADAPTERS.values()]
    settings |= {
        setting.path.removeprefix("rules.") for listed in (*policies, *adapters) for setting in listed if not setting.is_block
    }
    commands = {name: tables.fill(name) for name in COMMANDS}
    options = {option for parser in commands.values() for option in shown_options(parser)}
    columns = {name for table, of in tables.tables_of(tables.LEDGER).items() for name in (table, *of)}
    fields = {*tables.KeptDecision.__struct_fields__, *tables.Attempt.__struct_fields__, *tables.Line.__struct_fields__}
    names = {
        "config": settings | tables.POLICIES.keys() | tables.ADAPTERS.keys() | tables.models.SHIPPED_MODELS.keys(),
        "cli": commands.keys() | options,
        "http": tables.HEADERS.keys() | tables.ANSWERS.keys(),
        "errors": {code for code, *_ in tables.list_errors()},
        "metrics": {metric.name for metric in tables.METRICS} | {name for name, *_ in tables.list_events()},
        "ledger": columns | fields,
        "python": set(api.__all__),
    }
    for page, known in names.items():
        with subtests.test(page=page):
            told = set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", REFERENCE[page], flags=re.DOTALL)))
            told |= {word for text in told for word in re.split(r"[ ,{(]+", text)}
            told |= set(re.findall(r"^### (\w+)$", REFERENCE[page], re.MULTILINE))

            assert known - told == set()


def shown_options(parser) -> set[str]:
    shown = [action for action in parser._actions if action.help is not argparse.SUPPRESS and action.dest != "help"]
    return {option for action in shown for option in action.option_strings}


def test_every_fact_on_a_page_is_what_the_code_says(subtests):
    texts = {page: page.read_text() for page in facts.pages()}
    for page, text in texts.items():
        with subtests.test(page=page.name):
            assert facts.fill(text) == text, "run docs/generate.py"

    used = {name for text in texts.values() for name in re.findall(r"<!-- fact ([a-z-]+) -->", text)}
    assert used == facts.FACTS.keys()
    with pytest.raises(KeyError):
        facts.fill("<!-- fact nobody-knows -->1<!-- end -->")


def test_limits_and_times_on_pages_are_those_of_the_code(subtests):
    for page, said in facts.STATED.items():
        with subtests.test(page=page):
            text = " ".join((ROOT / "docs" / page).read_text().split())

            assert [words for words in said() if words not in text] == []


def test_links_and_anchors_lead_somewhere(subtests):
    for page in PAGES:
        with subtests.test(page=page):
            text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
            for link in re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'\bsrc(?:set)?="([^"]+)"', text):
                path, _, anchor = link.partition("#")
                target = page if not path else page.parent / path
                assert path.startswith("https://") or target.exists(), link
                assert not anchor or anchor in anchors_of(target.read_text()), link


def anchors_of(text: str) -> set[str]:
    """Of the headings of a page, on the site and at GitHub."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


VALUES_OF = {
    "ALERTS_WEBHOOK": "https://hooks.example.com/1",
    "OTEL_EXPORTER_OTLP_HEADERS": "x-scope-orgid=team",
    "TANDEM_VALKEY_URL": "redis://valkey.example.com:6379",
    "TANDEM_POSTGRES_URL": "postgresql://user:password@postgres.example.com:5432/tandem",
}


def test_yaml_examples_are_good_configs(monkeypatch, subtests):
    for page in PAGES:
        for number, block in enumerate(configs_on(page)):
            for name in re.findall(r"env:([A-Z_]+)", block):
                monkeypatch.setenv(name, VALUES_OF.get(name, f"whsec_{'x' * 32}"))
            with subtests.test(page=page.name, block=number):
                assert check_config(block, page.name, page.parent, known_names()).targets


EXAMPLES = [
    pytest.param(line, tier, id=f"{page.name}: {line[:40]}")
    for page in PAGES
    for line, tier in re.findall(r"^\s*(?:\.venv/bin/)?tandem (explain .*?)\s+# (fast|deep)", page.read_text(), re.MULTILINE)
]


def test_the_readme_and_the_tutorial_show_quick_and_long_examples():
    assert {example.values[1] for example in EXAMPLES} == {"fast", "deep"}
    assert len(EXAMPLES) >= 10


@pytest.mark.parametrize(("line", "tier"), EXAMPLES)
def test_an_example_goes_where_its_page_says(line, tier, capsys):
    assert main(shlex.split(line)) == 0

    assert capsys.readouterr().out.split()[0] == tier


def test_the_examples_that_serve_prints_go_where_it_says(capsys):
    for words, tier in ((QUICK_EXAMPLE, "fast"), (LONG_EXAMPLE, "deep")):
        assert main(["explain", words]) == 0
        assert capsys.readouterr().out.split()[0] == tier


NAMED = [
    *(page for folder in ("start", "use", "run", "decide", "how-it-works") for page in (ROOT / "docs" / folder).glob("*.md")),
    *(ROOT / "docs").glob("*.md"),
    ROOT / "SECURITY.md",
    *(ROOT / "docs" / "reference").glob("*.md"),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
]


def test_every_path_that_a_page_names_exists(subtests):
    for page in NAMED:
        with subtests.test(page=page.name):
            named = re.findall(r"`((?:router|tests|policies|adapters|docs)/[\w./*-]+)`", page.read_text())

            assert [path for path in named if not any(ROOT.glob(f"{path.rstrip('/')}*"))] == []


def test_every_command_and_option_that_a_page_names_exists(subtests):
    for page in NAMED:
        with subtests.test(page=page.name):
            named = re.findall(r"(?:^|`)(?:\$ )?tandem ([a-z]+)\b([^`\n]*)", page.read_text(), re.MULTILINE)
            wrong = [f"{name}{rest}" for name, rest in named if not _is_known(name, rest)]

            assert wrong == []


def _is_known(command: str, rest: str) -> bool:
    if command not in COMMANDS:
        return f"command {command}" in read_removed()
    _, commands = build_parser({command})
    given = re.findall(r"(?<!\S)--[a-z][a-z-]*", re.split(r" -- |#", rest)[0])
    return set(given) <= set(commands[command]._option_string_actions)


def known_settings() -> set[str]:
    """Every setting and block of the config, as pages name them: `tiers.….instructions` is that of either tier."""
    paths = {setting.path.replace("[]", "") for setting in tables.list_settings(tables.models.Config)}
    for name, kind in tables.POLICIES.items():
        own = {setting.path.replace("[]", "") for setting in tables.list_settings(kind.Config, f"{name}.")}
        paths |= own | {f"policies.{path}" for path in own} | {path.removeprefix("rules.") for path in own}
    either = {path.replace("tiers.fast.", tier) for path in paths for tier in ("tiers.deep.", "tiers.….", "tiers.TIER.")}
    return paths | either


def test_every_setting_that_a_page_names_exists(subtests):
    known = known_settings() | {name for name, *_ in tables.list_events()}
    blocks = {path for path in known if "." not in path}
    for page in NAMED:
        with subtests.test(page=page.name):
            named = re.findall(r"`([a-z_]+)((?:\.[a-z_….]+)+?)(?:: [^`]*)?`", page.read_text())
            wrong = {f"{block}{rest}" for block, rest in named if block in blocks and f"{block}{rest}" not in known}

            assert {path for path in wrong if not re.search(r"\.(yaml|json|db|py|env|js|before)$", path)} == set()


def test_every_header_that_a_page_names_exists(subtests):
    known = tables.HEADERS.keys() | tables.ANSWERS.keys() | {BUSY, PAGE_HEADER}
    for page in NAMED:
        with subtests.test(page=page.name):
            assert set(re.findall(r"x-tandem-[a-z]+(?:-[a-z]+)*(?![a-z*-])", page.read_text())) <= known


def test_every_route_of_ours_that_a_page_names_is_served(subtests):
    known = {re.sub(r"{[^}]*}", "*", route.partition(" ")[2]) for route in served_routes()}
    for page in NAMED:
        with subtests.test(page=page.name):
            named = {path.rstrip("/") for path in re.findall(r"(/tandem/[a-z][a-z/_-]*)", page.read_text())}
            assert {path for path in named if not any(f"{route}/".startswith(f"{path}/") for route in known)} <= OUTSIDE


OUTSIDE = {
    "/tandem/config",
    "/tandem/tandem",
    "/tandem/keys",
    "/tandem/bin/pip",
    "/tandem/connect",
    "/tandem/routers",
    "/tandem/agents",
}
"""Folders and files whose path looks like a route."""


PUBLISHED = {"google-auth", "openai[realtime]", "aider-chat", "llm"}
"""Packages of others that a page may say to install: they were looked up."""


def test_no_page_installs_a_package_that_no_index_has(subtests):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    command = re.compile(r"(?:pip|pipx|uv tool|uv pip) (?:install|inject tandem-router)((?: +[^\s`#;&|,)]+)+)")
    for page in NAMED:
        with subtests.test(page=page.name):
            text = page.read_text()
            given = [word.strip("'\"") for words in command.findall(text) for word in words.split()]
            named = {word for word in given if not word.startswith(("-", ".", "/", "dist/"))}

            assert named <= PUBLISHED | ({"tandem-router"} if page.name == "install.md" else set())
            assert "tandem-router[" not in text
            assert set(re.findall(r"extra `([a-z]+)`", text)) <= extras.keys()


def test_the_page_about_privacy_names_every_address_that_a_config_may_hold_and_every_file():
    page = (ROOT / "docs/run/privacy.md").read_text()
    paths = {setting.path for setting in tables.list_settings(tables.models.Config)}

    assert {
        path for path in paths if path.rpartition(".")[2] in ("url", "base_url", "endpoint", "webhook")
    } == facts.LEAVES.keys()
    assert [name for names in facts.FILES.values() for name in names if name != "config.yaml" and name not in page] == []


def test_the_page_about_problems_has_a_row_for_each_kind():
    page = (ROOT / "docs/run/alerts.md").read_text()
    table = page[page.index("| kind |") :].partition("\n\n")[0]

    assert set(re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE)) == set(Trouble)


def test_every_error_code_that_a_router_answers_is_in_the_reference():
    told = REFERENCE["errors"]
    files = [path for folder in ("router", "adapters") for path in (ROOT / folder).rglob("*.py")]
    codes = {code for path in files for code in re.findall(r"code[\"']?[:=] ?\"([a-z]+_[a-z_]+)\"", path.read_text())}

    assert {"config_faulty", "budget_spent"} <= codes
    assert {code for code in codes if f"`{code}`" not in told} == set()


def test_every_word_of_the_glossary_has_a_meaning_and_stands_in_order():
    rows = re.findall(r"^\| ([a-z, ]+) \| (.+) \|$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    words = [word for word, _ in rows if word != "word"]

    assert len(words) > 25
    assert words == sorted(words)


def test_the_readme_is_short_and_names_every_override_and_both_commands():
    readme = (ROOT / "README.md").read_text()

    assert len(readme.split()) <= 650
    assert "make serve" in readme
    assert "make test" in readme
    for name in tables.HEADERS:
        assert name in readme


def test_the_pages_keep_to_their_words():
    docs = ROOT / "docs"
    folders = (docs / folder for folder in ("start", "use", "run", "decide", "reference"))
    users = [*docs.glob("*.md"), *(page for folder in folders for page in folder.glob("*.md"))]
    decisions = [*(docs / "decisions").glob("*.md")]
    others = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "config.yaml")]
    everything = {*docs.rglob("*.md"), *others} - {*decisions}

    def count(pages):
        return sum(len(FRONT_MATTER.sub("", page.read_text()).split()) for page in pages)

    assert count(users) <= 32_000
    assert count(everything) <= 48_000
    assert count(decisions) <= 20_000


def test_the_readme_states_the_figures_of_the_pages_that_it_links_to():
    readme = (ROOT / "README.md").read_text()
    savings, speed, translation = (
        (ROOT / "docs" / "decide" / f"{name}.md").read_text() for name in ("savings", "speed", "translation")
    )
    clients = re.search(r"<!-- clients -->\n\n.*\n.*\n((?:\|.*\n)+)", translation)[1]

    for page, figures in ((savings, ("52 of 55", "0.63", "95 %", "70 %")), (speed, ("1.0 ms", "3.2 ms", "0.04 ms"))):
        for figure in figures:
            assert figure in page
            assert figure in readme
    assert f"{len(clients.splitlines())} clients and SDKs" in readme


def test_the_version_is_the_same_wherever_it_is_written():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    wheels = {found for page in PAGES for found in re.findall(r"tandem_router-([^-]+)-py3", page.read_text())}

    site = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["site_name"]

    assert wheels == {version}
    assert site == f"Tandem {version}"


def test_the_changelog_begins_with_what_is_unreleased_and_then_this_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    unreleased, released = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:3]

    assert unreleased.startswith("Unreleased\n")
    assert re.match(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", released, re.MULTILINE)


def served_routes() -> set[str]:
    road = FakeRoad()
    built = Built(road)
    pages = [page for panel in list_panels(built, lambda: True, Admission(road)) for page in panel.pages]
    served = {f"{method} {page.path}" for page in pages for method in page.methods}
    return served | {f"POST {path}" for path in ROUTES} | {f"GET {path}" for path in SOCKET_PATHS}


def test_every_route_is_documented_and_every_documented_route_is_served():
    served = served_routes()
    rows = re.findall(r"^(`.*?) \| ", REFERENCE["http"], re.MULTILINE)
    documented = set(re.findall(r"`([A-Z]+ /[^`]*)`", " ".join(rows)))

    def plain(routes):
        return {re.sub(r"{[^}]*}", "{}", route) for route in routes}

    assert plain(documented) == {route for route in plain(served) if route.replace(" /", " /v1/") not in plain(served)}
    assert {f"/v1/{route}" for route in PassedRoute} <= set(re.findall(r"`(/v1/\w+)`", " ".join(rows)))


def test_every_room_is_in_a_wing_or_among_those_that_all_share():
    wings = (ROOT / "docs/how-it-works/where-do-i-change.md").read_text().partition("## By change")[0]
    rooms = {path.stem for path in (ROOT / "router").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}

    assert {room for room in rooms - {"__init__"} if f"`{room}`" not in wings} == set()


def test_every_environment_variable_that_is_read_is_documented():
    told = REFERENCE["config"]
    read = re.compile(r"environ(?:ment)?(?:\.get\(|\[)\"([A-Za-z_]+)\"|\$\{([A-Z_]+):-~|_below_home\(\"([A-Z_]+)\"")
    files = [
        path for folder in ("router", "adapters") for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".toml")
    ]
    names = {name for path in files for found in read.findall(path.read_text()) for name in found if name}

    assert {"TANDEM_CONFIG", "NO_PROXY", "XDG_STATE_HOME", "CODEX_HOME"} <= names
    assert {name for name in names if f"`{name}`" not in told} == set()


VALUES = re.compile(r'…|"|NAME|/chat/completions|config\.ya?ml|tandem\.db|\bfast\b|\(\d+\)|\d rows')
"""What varies in a message that a page quotes: a name, a file, a number."""


def test_every_message_that_troubleshooting_quotes_is_in_the_code():
    files = [ROOT / "Makefile", *(ROOT / "router").rglob("*.py"), *(ROOT / "adapters").rglob("*.py")]
    code = re.sub(r'"\s*\n\s*f?"', "", "\n".join(path.read_text() for path in files))  # a text in several lines is one
    page = (ROOT / "docs" / "troubleshoot.md").read_text()
    symptoms = re.findall(r"^\| (.*?) \|", page, re.MULTILINE)

    quoted = [
        piece.strip() for symptom in symptoms for text in re.findall(r"`([^`]+)`", symptom) for piece in VALUES.split(text)
    ]

    assert len(quoted) > 40
    assert [piece for piece in quoted if len(piece) > 3 and piece not in code] == []
