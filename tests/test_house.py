"""The plan of the house: imports run one way, and the road fits a screen."""

import ast
import functools
import re
from pathlib import Path

import pytest

from router.contract.words import Dialect

parse = functools.cache(ast.parse)


@functools.cache
def walk(node: ast.AST) -> list[ast.AST]:
    return [*ast.walk(node)]


ROOT = Path(__file__).resolve().parents[1]
MIDDLE = ("config", "sessions", "sense", "decide", "dispatch", "upstream", "stores", "responses")
LEVELS = {
    "contract": (),
    "dialects": ("contract",),
    "telemetry": ("contract",),
    "loop": ("contract", "telemetry"),
    **{room: ("contract", "dialects", "telemetry", "loop", room) for room in MIDDLE},
    "limits": ("contract", "dialects", "telemetry"),
    "dispatch": ("contract", "dialects", "telemetry", "loop", "limits"),
    "settle": ("contract", "dialects", "telemetry", "decide"),
    "look": ("contract", "dialects", "telemetry", "loop", *MIDDLE, "limits", "combine"),
    "combine": ("contract", "decide", "sessions"),
    "plan": ("contract", "dialects", "telemetry", "loop", *MIDDLE, "limits", "combine", "look"),
    "house": ("contract", "dialects", "telemetry", "loop", *MIDDLE, "settle", "plan"),
    "edge": ("contract", "dialects", "telemetry", "loop", *MIDDLE, "plan", "house"),
    "past": ("contract", "dialects", "telemetry", "loop", *MIDDLE, "settle", "look", "plan", "house"),
    "connect": (),
    "notices": ("contract", "telemetry", "loop"),
    "page": (
        "contract",
        "dialects",
        "telemetry",
        "loop",
        *MIDDLE,
        "limits",
        "settle",
        "plan",
        "house",
        "past",
        "notices",
        "edge",
    ),
    "jobs": (
        "contract",
        "dialects",
        "telemetry",
        "loop",
        *MIDDLE,
        "settle",
        "plan",
        "house",
        "notices",
        "edge",
    ),
    "wiring": (
        "contract",
        "dialects",
        "telemetry",
        "loop",
        *MIDDLE,
        "limits",
        "settle",
        "look",
        "plan",
        "house",
        "jobs",
        "notices",
        "page",
        "edge",
        "past",
    ),
    "cli": (
        "contract",
        "dialects",
        "telemetry",
        "loop",
        *MIDDLE,
        "limits",
        "settle",
        "plan",
        "house",
        "notices",
        "page",
        "edge",
        "past",
        "wiring",
        "connect",
    ),
    "api": ("contract", "config", "telemetry", "loop", "edge", "wiring"),
}


def source_files() -> list[Path]:
    return [path for folder in ("router", "policies", "adapters") for path in sorted((ROOT / folder).rglob("*.py"))]


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in walk(parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
    return found


def room_of(path: Path) -> str:
    """The room that a module is in: a folder of the router, one of its own modules, `policies` or `adapters`."""
    folder, *inside = path.relative_to(ROOT).parts
    return inside[0].removesuffix(".py") if folder == "router" else folder


def test_every_import_inside_the_router_runs_one_way():
    breaches = []
    for path in sorted((ROOT / "router").rglob("*.py")):
        room = room_of(path)
        if room == "__init__":
            continue
        allowed = {room, *LEVELS[room]}
        for module in imports_of(path):
            parts = module.split(".")
            if parts[0] == "router" and len(parts) > 1 and parts[1] not in allowed:
                breaches.append(f"{path.relative_to(ROOT)} imports {module}")
            if parts[0] in ("policies", "adapters") and path.name != "registry.py":
                breaches.append(f"{path.relative_to(ROOT)} imports {module}")

    assert breaches == []


def test_policies_and_adapters_see_only_contract_and_dialects():
    breaches = []
    for path in sorted([*(ROOT / "policies").glob("*.py"), *(ROOT / "adapters").glob("*.py")]):
        for module in imports_of(path):
            if module.startswith("router.") and module.split(".")[1] not in ("contract", "dialects"):
                breaches.append(f"{path.relative_to(ROOT)} imports {module}")

    assert breaches == []


def dialects_named_in(source: str) -> list[str]:
    """Every place that names one dialect, but for what an adapter declares that it carries."""
    tree = parse(source)
    known_as = {"Dialect"}
    declared: set[ast.AST] = set()
    for node in walk(tree):
        if isinstance(node, ast.ImportFrom):
            known_as |= {alias.asname for alias in node.names if alias.name == "Dialect" and alias.asname}
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Name) and target.id == "speaks":
            declared |= set(walk(node))

    def is_the_enum(node: ast.AST) -> bool:
        return getattr(node, "id", None) in known_as or getattr(node, "attr", None) == "Dialect"

    def names_one(node: ast.AST) -> bool:
        match node:
            case ast.Attribute(value=value, attr=name):
                return is_the_enum(value) and name in Dialect.__members__
            case ast.Call(func=called, args=[ast.Constant()]) | ast.Subscript(value=called, slice=ast.Constant()):
                return is_the_enum(called)
        return False

    return [f"{node.lineno}: {ast.unparse(node)}" for node in walk(tree) if node not in declared and names_one(node)]


def test_nothing_but_dialects_and_contract_names_a_dialect():
    breaches = []
    for path in sorted(path for room in ("router", "policies", "adapters") for path in (ROOT / room).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(("router/dialects/", "router/contract/")):
            breaches += [f"{name}:{found}" for found in dialects_named_in(path.read_text())]

    assert breaches == []


@pytest.mark.parametrize(
    "breach",
    [
        "if view.dialect is Dialect.CHAT: pass",
        "if view.dialect in (Dialect.CHAT, Dialect.RESPONSES): pass",
        "match view.dialect:\n    case Dialect.MESSAGES: pass",
        "PATHS = {Dialect.CHAT: '/chat/completions'}",
        "path = PATHS[Dialect.CHAT]",
        "KIND = Dialect.CHAT",
        "from router.contract.words import Dialect as D\nD.CHAT",
        "from router.contract import words\nwords.Dialect.CHAT",
        "if view.dialect is Dialect('chat'): pass",
        "if view.dialect is Dialect['CHAT']: pass",
    ],
)
def test_every_way_to_name_a_dialect_is_seen(breach):
    assert dialects_named_in(breach)


def test_what_an_adapter_carries_and_what_a_request_says_name_no_dialect():
    source = """
class Adapter:
    speaks: ClassVar[frozenset[Dialect]] = frozenset({Dialect.CHAT})

def read(text: str) -> Dialect:
    return Dialect(text) if text in SPECS else DEFAULT_DIALECT
"""

    assert dialects_named_in(source) == []


_SQL = re.compile(r"\b(SELECT\b.*\bFROM|INSERT\s.*\bINTO|DELETE\s+FROM|UPDATE\b.*\bSET|PRAGMA|BEGIN IMMEDIATE)\s", re.DOTALL)


def sql_in(source: str) -> list[str]:
    """Every text of a module that is a statement of SQL, and every import of what runs one."""
    tree = parse(source)
    texts = (node.value for node in walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    modules = (name.name for node in walk(tree) if isinstance(node, ast.Import) for name in node.names)
    return [*filter(_SQL.search, texts), *(module for module in modules if module == "sqlite3")]


def test_no_sql_is_written_outside_the_stores():
    modules = {path.relative_to(ROOT).as_posix(): path for path in sorted((ROOT / "router").rglob("*.py"))}
    found = {name: sql_in(path.read_text()) for name, path in modules.items()}

    assert {name for name, sql in found.items() if sql and not name.startswith("router/stores/")} == set()
    assert found["router/stores/sqlite/past.py"]


@pytest.mark.parametrize("source", ['q = "SELECT a FROM b "', 'f"INSERT OR IGNORE INTO {x} VALUES (1)"', "import sqlite3"])
def test_sql_is_seen(source):
    assert sql_in(source)


# The last is a router of its own, whose config Tandem recognises.
_CLIENTS = re.compile(r"codex|claude[-_]code(?!-router)|opencode|qwen[-_]code|\bcline\b|\baider\b", re.IGNORECASE)
_NAMING_CLIENTS = tuple(f"router/{room}/" for room in ("sessions/clients", "connect", "past/logs", "cli"))
_NAMING_CLIENTS += ("router/dialects/transports.py",)  # the headers and events of a vendor's plan have the name of its client


def clients_named_in(source: str) -> list[str]:
    """Every name and text of the code that names a client; comments and docstrings may."""
    tree = parse(source)
    docstrings = {node.value for node in walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)}
    found = []
    for node in walk(tree):
        values = [] if node in docstrings else [value for _, value in ast.iter_fields(node) if isinstance(value, str)]
        found += [f"{getattr(node, 'lineno', 0)}: {value[:60]}" for value in values if _CLIENTS.search(value)]
    return found


def test_nothing_but_a_clients_own_file_names_a_client():
    breaches = []
    for path in sorted(path for room in ("router", "policies", "adapters") for path in (ROOT / room).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(_NAMING_CLIENTS):
            breaches += [f"{name}:{found}" for found in clients_named_in(path.read_text())]

    assert breaches == []


@pytest.mark.parametrize(
    "breach",
    [
        'if turn.client == "codex": pass',
        'STATE = "x-codex-turn-state"',
        "from router.sessions.clients import CODEX",
        "import router.sessions.clients.claude_code",
        "clients.aider",
        "def read_codex_metadata(): pass",
        "lead = f'{row} for opencode'",
    ],
)
def test_every_way_to_name_a_client_is_seen(breach):
    assert clients_named_in(breach)


_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_MOST_LINES, _MOST_BRANCHES = 60, 8
_STEPS_ASIDE = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case, ast.comprehension)


def functions_in(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in walk(parse(path.read_text())) if isinstance(node, _FUNCTIONS)]


def branches_in(function: ast.AST) -> int:
    """Each place where a reader has to follow more than one way; `a and b or c` has two of them."""
    nodes = list(walk(function))
    return sum(isinstance(node, _STEPS_ASIDE) for node in nodes) + sum(
        len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp)
    )


def test_no_function_is_longer_than_a_screen():
    long = [
        f"{path.relative_to(ROOT)}: {function.name} has {lines} lines"
        for path in source_files()
        for function in functions_in(path)
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > _MOST_LINES
    ]

    assert long == []


def test_every_function_of_the_road_can_be_said_aloud():
    functions = functions_in(ROOT / "router" / "house.py")
    found = {function.name: branches_in(function) for function in functions}

    assert {name: count for name, count in found.items() if count > _MOST_BRANCHES} == {}
    assert {"serve", "_answer", "_decide"} <= set(found)


# The whole house. Each figure is what stood when it was last set, and only falls: what grows in one place shrinks in another.
SOURCE_LINES, SOURCE_FILES = 79_224, 602
PROGRAM_LINES = 1_526
TEST_LINES = 120_283
MEASURING_LINES = 9_317
_WRITTEN = {".py", ".js", ".sql"}
_MEASURING = tuple(f"tests/{folder}/" for folder in ("bench", "lab", "soak"))


def written_in(*folders: str) -> dict[str, int]:
    """The lines of each program and script in some folders, by its path; libraries of others are left out."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*"))]
    own = [path for path in paths if path.suffix in _WRITTEN and not {"vendor", "node_modules"}.intersection(path.parts)]
    return {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in own}


def test_the_house_keeps_to_its_budget():
    source, tests = written_in("router", "policies", "adapters"), written_in("tests")
    measuring = sum(lines for path, lines in tests.items() if path.startswith(_MEASURING))
    sizes = {
        "SOURCE_LINES": (sum(source.values()), SOURCE_LINES),
        "SOURCE_FILES": (len(source), SOURCE_FILES),
        "PROGRAM_LINES": (sum(written_in("docs", "requirements").values()), PROGRAM_LINES),
        "TEST_LINES": (sum(tests.values()) - measuring, TEST_LINES),
        "MEASURING_LINES": (measuring, MEASURING_LINES),
    }
    print(*(f"{name} {size} of {most}" for name, (size, most) in sizes.items()), sep="\n")

    assert {name: size for name, (size, most) in sizes.items() if size > most} == {}, "make room for it elsewhere"


def sinks_of_the_house() -> set[str]:
    """The classes that take an answer, protocols too: they have a head, a body and an end, or a base of theirs has."""
    classes = [node for path in (ROOT / "router").rglob("*.py") for node in parse(path.read_text()).body]
    classes = [node for node in classes if isinstance(node, ast.ClassDef)]
    members = {node.name: {each.name for each in node.body if isinstance(each, ast.FunctionDef)} for node in classes}
    bases = {node.name: [ast.unparse(base) for base in node.bases] for node in classes}

    def all_members(name: str) -> set[str]:
        return members.get(name, set()).union(*map(all_members, bases.get(name, ())))

    return {name for name in members if all_members(name) >= {"feed_from", "start", "write", "end", "fail"}}


def test_there_are_few_sinks_and_the_page_of_sinks_names_each_between_target_and_caller():
    sinks = {name.strip("_") for name in sinks_of_the_house()}
    page = (ROOT / "router" / "contract" / "sinks.py").read_text()

    assert len(sinks) < 18, sorted(sinks)
    assert sinks - set(re.findall(r"\w+", page)) == {"Call"}  # the demo's: it is a client


def test_the_top_level_holds_nothing_but_the_plan_and_customary_files():
    allowed = {
        *("router", "policies", "adapters", "tests", "docs", "config.yaml", "pyproject.toml", "requirements", "Makefile"),
        *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", ".ci", ".git", ".gitignore"),
        *("Dockerfile", ".dockerignore", "compose.yaml", "zensical.toml"),
    }
    ignored = {".venv", "dist", "site", ".cache", ".ruff_cache", ".mypy_cache", ".pytest_cache", ".hypothesis", "__pycache__"}
    found = {path.name for path in ROOT.iterdir()} - ignored

    assert {name for name in found if not name.startswith(("tandem.db", "config.yaml.bak", ".env"))} <= allowed


def modules_of(room: Path) -> dict[str, Path]:
    """The modules of a room by their dotted names; a package goes by its folder's."""
    files = [room] if room.is_file() else sorted(room.rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in files}


def circles_in(graph: dict[str, set[str]]) -> list[list[str]]:
    """Every way that leads from a module back to itself, each told once."""
    found: dict[frozenset[str], list[str]] = {}

    def follow(way: list[str]) -> None:
        for step in sorted(graph[way[-1]]):
            if step == way[0]:
                found.setdefault(frozenset(way), [*way, step])
            elif step not in way and step > way[0]:
                follow([*way, step])

    for module in sorted(graph):
        follow([module])
    return list(found.values())


def test_no_modules_of_one_room_import_each_other_in_a_circle():
    """Imports for type checkers alone count too: what two modules know of each other is one module."""
    circles = []
    for room in sorted([*(ROOT / "router").iterdir(), ROOT / "policies", ROOT / "adapters"]):
        if room.is_dir() and room.name != "__pycache__":
            modules = modules_of(room)
            graph = {name: (imports_of(path) & set(modules)) - {name} for name, path in modules.items()}
            circles += [" → ".join(circle) for circle in circles_in(graph)]

    assert circles == []


def test_no_parts_of_the_edge_import_each_other_in_a_circle():
    """A part is a folder of the edge, or one of its own modules: what all ways in share knows none of them."""
    edge = ROOT / "router" / "edge"
    graph: dict[str, set[str]] = {}
    for path in sorted(edge.rglob("*.py")):
        part = path.relative_to(edge).parts[0].removesuffix(".py")
        imported = (module.split(".") for module in imports_of(path) if module.startswith("router.edge."))
        graph.setdefault(part, set()).update(names[2] for names in imported if names[2] != part)

    assert circles_in(graph) == []
    assert graph["admission"] == {"callers", "logins", "routes", "wrong_keys"}


def test_a_circle_is_found_whatever_its_length():
    assert circles_in({"a": {"b"}, "b": {"a"}, "c": {"a"}}) == [["a", "b", "a"]]
    assert circles_in({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == [["a", "b", "c", "a"]]
    assert circles_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def assigned_in(node: ast.AST) -> list[ast.expr]:
    """The places that a statement assigns to, those of tuples one by one."""
    given = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AugAssign | ast.AnnAssign)
        else []
    )
    return [place for each in given for place in (each.elts if isinstance(each, ast.Tuple | ast.List) else [each])]


def is_own(place: ast.expr) -> bool:
    return isinstance(place, ast.Attribute) and isinstance(place.value, ast.Name) and place.value.id in ("self", "cls")


def attributes_of(source: str) -> set[str]:
    """The attributes that the classes of a module have."""
    classes = [node for node in walk(parse(source)) if isinstance(node, ast.ClassDef)]
    fields = {place.id for each in classes for node in each.body for place in assigned_in(node) if isinstance(place, ast.Name)}
    return fields | {place.attr for each in classes for node in walk(each) for place in assigned_in(node) if is_own(place)}


def foreign_assignments(modules: dict[str, tuple[str, str]]) -> set[tuple[str, str]]:
    """Where a module sets an attribute that only classes of other rooms have. Modules: name → room, source."""
    rooms: dict[str, set[str]] = {}
    for room, source in modules.values():
        rooms.setdefault(room, set()).update(attributes_of(source))
    found = set()
    for name, (room, source) in modules.items():
        others = set().union(*(known for other, known in rooms.items() if other != room)) - rooms[room]
        places = [place for node in walk(parse(source)) for place in assigned_in(node)]
        found |= {
            (name, ast.unparse(place))
            for place in places
            if isinstance(place, ast.Attribute) and not is_own(place) and place.attr in others
        }
    return found


def own_modules() -> dict[str, tuple[str, str]]:
    return {path.relative_to(ROOT).as_posix(): (room_of(path), path.read_text()) for path in source_files()}


# Each is to go: a part that another room sets is one that a constructor, or a method of its own, should be given.
FOREIGN = {
    ("router/cli/past/history.py", "self.tally.advance"),
    ("router/cli/replay.py", "report.unservable"),
    ("router/dialects/histories.py", "beginning.learned"),
    ("router/edge/tls.py", "context.options"),  # of the standard library
    ("router/responses/acknowledged.py", "exchange.confirming"),
    ("router/wiring/build.py", "state.shared.has_limits"),
}


def test_no_room_sets_an_attribute_of_another_rooms_object():
    found = foreign_assignments(own_modules())

    assert found - FOREIGN == set(), "give it to the constructor, or let a method of its class set it"
    assert len(FOREIGN) <= 10
    assert FOREIGN - found == set(), "no longer needed: take it off the list"


@pytest.mark.parametrize("breach", ["house.accept_job = take", "a.b.accept_job, x = 1, 2", "given.accept_job += 1"])
def test_setting_an_attribute_of_another_room_is_seen(breach):
    house = "class House:\n    def __init__(self):\n        self.accept_job = None\n        self.accept_job = 1"

    assert foreign_assignments({"house": ("house", house), "jobs": ("jobs", breach)})
    assert not foreign_assignments({"house": ("house", f"{house}\n{breach}")})


def without_base_init(sources: list[str]) -> list[str]:
    """Classes with an `__init__` that leaves out the one of a base in our tree. A protocol has none to call."""
    nodes = [node for source in sources for node in walk(parse(source)) if isinstance(node, ast.ClassDef)]

    def bases_of(node: ast.ClassDef) -> list[str]:
        return [ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases]

    def init_of(node: ast.ClassDef) -> ast.FunctionDef | None:
        return next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)

    def has_init(name: str) -> bool:
        """Where two classes share a name, both have one."""
        known = [node for node in nodes if node.name == name]
        own = [init_of(node) is not None or any(map(has_init, bases_of(node))) for node in known]
        return bool(own) and all(own) and not any("Protocol" in bases_of(node) for node in known)

    def calls_init(function: ast.AST) -> bool:
        return any(isinstance(node, ast.Attribute) and node.attr == "__init__" for node in walk(function))

    own = [(node, init) for node in nodes if (init := init_of(node)) is not None]
    return [node.name for node, init in own if any(map(has_init, bases_of(node))) and not calls_init(init)]


def test_every_subclass_calls_the_init_of_its_base():
    assert without_base_init([path.read_text() for path in source_files()]) == []


def test_a_subclass_that_leaves_out_the_init_of_its_base_is_seen():
    base = "class Tokens:\n    def __init__(self): self.key = 1\nclass Between(Tokens): pass\n"

    assert without_base_init([base, "class Naming(Between):\n    def __init__(self): self.own = 1"]) == ["Naming"]
    assert without_base_init([base, "class Naming(Tokens):\n    def __init__(self): super().__init__()"]) == []


def anys_in(source: str) -> int:
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in walk(parse(source)))


def late_imports_in(source: str) -> int:
    functions = [node for node in parse(source).body if not isinstance(node, ast.Import | ast.ImportFrom)]
    inside = [each for node in functions for each in walk(node) if isinstance(each, _FUNCTIONS)]
    return len({each for function in inside for each in walk(function) if isinstance(each, ast.Import | ast.ImportFrom)})


# A row of the second may only grow for a part that few configs or requests need, loaded with the first that does: each module
# takes a part of a millisecond and 30 kB in every process.
ANYS_IN_CONTRACT = 7
LATE_IMPORTS = {
    "wiring": 26,
    "cli": 23,
    "stores": 16,
    "dialects": 2,
    "edge": 10,
    "jobs": 5,
    "adapters": 4,
    "dispatch": 4,
    "upstream": 4,
    "sense": 3,
    "config": 1,
    "contract": 1,
    "look": 1,
    "notices": 1,
    "responses": 1,
    "telemetry": 1,
}


def test_the_contract_has_no_more_any_and_no_room_more_late_imports():
    rooms: dict[str, int] = {}
    for room, source in own_modules().values():
        if count := late_imports_in(source):
            rooms[room] = rooms.get(room, 0) + count

    assert sum(anys_in(source) for room, source in own_modules().values() if room == "contract") <= ANYS_IN_CONTRACT
    assert {room: count for room, count in rooms.items() if count > LATE_IMPORTS.get(room, 0)} == {}


def test_an_any_and_a_late_import_are_seen():
    assert anys_in("plan: Any = None\nx: dict[str, Any]") == 2
    assert late_imports_in("import a\ndef f():\n    import b\n    def g():\n        from c import d") == 2
