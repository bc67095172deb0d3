"""The docs say what the code does: generated pages are fresh, examples work, links lead somewhere."""

import importlib.util
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from router.cli import COMMANDS, RENAMED, build_parser, main
from router.cli.serving import LONG_EXAMPLE, QUICK_EXAMPLE
from router.config.load import check_config
from router.contract.words import PassedRoute
from router.edge.admission import Admission
from router.edge.routes import ROUTES, SOCKET_PATHS
from router.wiring.build import known_names
from router.wiring.built import Built
from router.wiring.panels import list_panels
from tests.tools.edge import FakeRoad

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)


@pytest.mark.parametrize("name", list(generate.PAGES))
def test_a_generated_page_says_what_the_code_says(name):
    assert (ROOT / "docs" / "reference" / name).read_text() == generate.PAGES[name](), "run docs/generate.py"


def test_every_setting_has_a_sentence():
    rows = re.findall(
        r"^\| `([^`]+)` \| [^|]*\| ([^|]*)\|$", (ROOT / "docs" / "reference" / "config.md").read_text(), re.MULTILINE
    )

    assert [path for path, text in rows if not text.strip()] == []


def test_links_lead_somewhere(subtests):
    for page in PAGES:
        with subtests.test(page=page):
            for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
                assert (page.parent / link).exists(), link


def test_yaml_examples_are_good_configs(monkeypatch, subtests):
    for page in PAGES:
        for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)):
            for name in re.findall(r"env:([A-Z_]+)", block):
                monkeypatch.setenv(name, "x")
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
    *(ROOT / "docs").glob("how-*/*.md"),
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
        return command in {old.partition(" ")[0] for old in RENAMED}
    _, commands = build_parser({command})
    given = re.findall(r"(?<!\S)--[a-z][a-z-]*", re.split(r" -- |#", rest)[0])
    return set(given) <= set(commands[command]._option_string_actions)


def test_every_word_of_the_glossary_has_a_meaning_and_stands_in_order():
    rows = re.findall(r"^\| ([a-z, ]+) \| (.+) \|$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    words = [word for word, _ in rows if word != "word"]

    assert len(words) > 25
    assert words == sorted(words)


def test_the_readme_names_every_override_and_both_commands():
    readme = (ROOT / "README.md").read_text()

    assert "make serve" in readme
    assert "make test" in readme
    for name in generate.HEADERS:
        assert name in readme


def test_the_version_is_the_same_wherever_it_is_written():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    wheels = {found for page in PAGES for found in re.findall(r"tandem_router-([^-]+)-py3", page.read_text())}
    shown = {found for page in PAGES for found in re.findall(r"^Tandem (\d\S*)   http", page.read_text(), re.MULTILINE)}

    assert wheels == shown == {version}


def test_the_changelog_begins_with_what_is_unreleased_and_then_this_version_or_the_one_before():
    """The heading is written at the release: until then the version has its lines under `Unreleased`."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    unreleased, released = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:3]
    found = re.match(r"(\d+)\.(\d+)\.(\d+) \(\d{4}-\d\d-\d\d\)$", released, re.MULTILINE)
    major, minor = int(found[1]), int(found[2])

    assert unreleased.startswith("Unreleased\n")
    assert found[0].startswith(f"{version} (") or (version == f"{major}.{minor + 1}.0" and "\n- " in unreleased)


def test_every_route_is_documented_and_every_documented_route_is_served():
    road = FakeRoad()
    built = Built(road)
    pages = [page for panel in list_panels(built, lambda: True, Admission(road)) for page in panel.pages]
    served = {f"{method} {page.path}" for page in pages for method in page.methods}
    served |= {f"POST {path}" for path in ROUTES} | {f"GET {path}" for path in SOCKET_PATHS}
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "reference" / "routes.md").read_text(), re.MULTILINE)
    documented = set(re.findall(r"`([A-Z]+ /[^`]*)`", " ".join(rows)))

    def plain(routes):
        return {re.sub(r"{[^}]*}", "{}", route) for route in routes}

    assert plain(documented) == {route for route in plain(served) if route.replace(" /", " /v1/") not in plain(served)}
    assert {f"/v1/{route}" for route in PassedRoute} <= set(re.findall(r"`(/v1/\w+)`", " ".join(rows)))


def test_every_room_is_in_a_wing_or_among_those_that_all_share():
    wings = (ROOT / "docs/how-to/where-do-i-change.md").read_text().partition("## By change")[0]
    rooms = {path.stem for path in (ROOT / "router").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}

    assert {room for room in rooms - {"__init__"} if f"`{room}`" not in wings} == set()


def test_every_environment_variable_that_is_read_is_documented():
    told = (ROOT / "docs/reference/environment.md").read_text()
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
    page = (ROOT / "docs" / "how-to" / "troubleshoot.md").read_text()
    symptoms = re.findall(r"^\| (.*?) \|", page, re.MULTILINE)

    quoted = [
        piece.strip() for symptom in symptoms for text in re.findall(r"`([^`]+)`", symptom) for piece in VALUES.split(text)
    ]

    assert len(quoted) > 40
    assert [piece for piece in quoted if len(piece) > 3 and piece not in code] == []
