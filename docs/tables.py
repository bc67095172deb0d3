"""Tables of the reference, written from the code: settings, commands, headers, errors, metrics, events and columns."""

import argparse
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from router.cli import COMMANDS, GROUPS, fill_parser
from router.cli.keys import RIGHTS
from router.config import key_file, models
from router.config.settings import field_notes, fields_of, inner_block
from router.contract import errors
from router.contract.entry import Attempt, Line
from router.contract.words import Outcome
from router.dialects.as_sent import DIFFERENCES, Side
from router.dialects.overrides import HEADERS
from router.settle.kept import KeptDecision
from router.stores.sqlite.schemas import LEDGER, tables_of
from router.telemetry import events, genai
from router.telemetry.metric_table import TABLE as METRICS
from router.telemetry.metric_table import Kind
from router.wiring.registry import ADAPTERS, POLICIES

OTHERS = {
    "idempotency-key": "1 to 255 ASCII characters. Within ten minutes, a repeat [gets a whole answer again]"
    "(../use/sdks.md#retry-safely).",
}
ANSWERS = {
    "x-tandem-request-id": "The request's id, also in errors and the ledger.",
    "x-request-id": "For OpenAI's SDKs: the target's id, or the one above.",
    "request-id": "For Anthropic's SDKs.",
    "x-tandem-tier": "The tier that served.",
    "x-tandem-target": "The target that served; `queued` if not yet known.",
    "x-tandem-because": "Why, in ASCII; failed attempts first.",
    "x-tandem-score": "Chance of a long task, 0 to 1.",
    "x-tandem-overhead-ms": "Milliseconds until it first waited for others.",
    "x-tandem-replayed": "`true` for an answer repeated by `idempotency-key`.",
    "x-tandem-dropped": "What the request [lost](../decide/translation.md#what-is-dropped), or a budget's cap on the answer.",
    "x-tandem-budget": "Spent share of the budget: `0.82; left_usd=0.0899; period=day`.",
    "x-tandem-jobs": "Up to eight ended, uncollected jobs of the session: `resp_ab12=completed`.",
    "x-tandem-explain": "The decision as JSON, with `x-tandem-explain: full`.",
    "allow": "On a 405: methods that work.",
    "www-authenticate": "On Tandem's 401: `Bearer`.",
    "x-ratelimit-limit-requests": "The key's limit a minute, or the target's header; also `-remaining-`, `-reset-`, `-tokens`.",
    "anthropic-ratelimit-requests-limit": "On `/v1/messages`, also `-remaining`, `-reset` (a moment).",
}
EXITS = {
    "any": {
        0: "it did what was asked",
        1: "it could not",
        2: "wrong usage, or a faulty config",
        130: "Ctrl-C, but 0 in `serve` and `log --follow`",
    },
    "check": {1: "something is to fix", 2: "`tandem serve` would refuse to start"},
    "connect --run, run": {126: "the command could not start", 127: "it was not found", "other": "the command's own"},
    "delegate --wait, jobs watch, jobs result": {1: "the job is missing or not complete"},
    "keys test": {1: "the key is refused"},
    "service status": {1: "it is not installed, or no router answers"},
    "status": {1: "no router answers"},
    "stop": {1: "none runs, or 15 minutes were not enough"},
}
COMMON = {
    "--config": ("--config FILE", "default: `$TANDEM_CONFIG`, `./config.yaml`, usually the running router's (not for `serve`), "
                 "the user's config folder, else simulated tiers"),
    "--url": ("--url URL", "the router to ask (default: the running one). `log`, `stats`, `why`, `wrong`: instead of "
              "reading here"),
    "--key-env": ("--key-env NAME", "variable with your key for the router"),
    "--json": ("--json", "print JSON; what streams, a line per event"),
    "--since": ("--since WHEN", "`30m`, `2h`, `7d`, or a day: `2026-11-01` (default: all)"),
    "--ledger": ("--ledger FILE", "read the ledger (default: `ledger.path`)"),
    "--markdown": ("--markdown", "print Markdown"),
    "--yes": ("-y, --yes", "do not ask"),
    "--print": ("--print", "print what would be written"),
    "--no-ledger": ("--no-ledger", "write no record to disk"),
}  # fmt: skip
"""Options of several commands, by what a command calls them."""
SETTING_OF = {right.setting: right.setting for right in RIGHTS}
"""Options of `tandem keys` that set what the key file says."""
USUAL = ("--config", "--json")
"""Those that most commands take."""
TABLES = {
    "sessions": "what is remembered of a session, without text",
    "misjudged": "marks (`tandem wrong`): the tier that would have been right",
    "forwarded": "how far rows are copied to `shared.postgres`",
    "hours": "sums of `entries` by past hour; `cost_units` are 1e-8 USD, `firsts` calls with a first token",
    "days": "as `hours`, of days, and",
    "hour_calls": "calls of an hour, for plots",
    "settled": "earlier hours have sums",
    "stale_hours": "hours to sum again",
    "turn_worth": "what turns took, cost and saved; `sequence` is the first call",
    "span_worth": "sums of `turn_worth` by hour and day",
    "summed_spans": "hours and days that have such sums",
    "stale_turns": "sessions to fold again",
    "folded": "earlier calls are in `turn_worth`",
}


def items(rows: Iterable[str]) -> str:
    """A list, with the empty lines around it that Markdown needs."""
    return "\n\n" + "\n".join(f"- {row}" for row in rows) + "\n\n"


def table(head: str, rows: Iterable[str]) -> str:
    """With empty lines around it, without which the site shows no table. No pipes around rows."""
    return "\n\n" + "\n".join([head, " | ".join(["---"] * (head.count("|") + 1)), *rows]) + "\n\n"


class Setting(NamedTuple):
    path: str
    default: str
    note: str
    is_block: bool = False


def list_settings(kind: type, prefix: str = "") -> Iterator[Setting]:
    """Every setting and block, in the order of the code; those of `tiers.deep` are those of `tiers.fast`."""
    notes = field_notes(kind)
    for name, field in fields_of(kind).items():
        inner, path = inner_block(field), f"{prefix}{name}"
        if inner is None:
            yield Setting(path, say_default(field), notes.get(name, ""))
            continue
        yield Setting(path, "", notes.get(name, ""), is_block=True)
        if path != "tiers.deep":
            yield from list_settings(inner, f"{path}[]." if str(field.annotation).startswith("tuple[") else f"{path}.")


def say_default(field: object) -> str:
    """Empty for none."""
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    if isinstance(default, tuple):
        return f"[{', '.join(map(str, default))}]"
    if default is None or default == "" or default == {}:
        return ""
    if isinstance(default, dict):
        return f"{{{', '.join(f'{key}: {value}' for key, value in default.items())}}}"
    return str(default).lower() if isinstance(default, bool) else str(default)


def setting_row(setting: Setting, without: str = "") -> str:
    path, is_long = setting.path.removeprefix(without), len(setting.default) > 30
    default = f" ({setting.default})" if setting.default and not is_long else ""
    return f"`{path}`{default}: {setting.note}{f' Default: `{setting.default}`.' if is_long else ''}"


NEXT = "\n\n"
TARGETS = "tiers.fast.targets[]."


def settings() -> str:
    """A heading for each block, and one for what is in none."""
    blocks: dict[str, list[Setting]] = {"": []}
    for setting in list_settings(models.Config):
        first = setting.path.partition(".")[0].removesuffix("[]")
        if setting.is_block and setting.path == first:
            blocks[first] = [setting]
        else:
            blocks.get(first, blocks[""]).append(setting)
        if setting.path == "rules":  # settings of the policy, written here
            rules = list_settings(POLICIES["rules"].Config)
            blocks[""] += [rule for rule in rules if rule.path.startswith("rules[]") and not rule.is_block]
    parts = ["\n\n## Without a block", items(map(setting_row, blocks.pop("")))]
    for name, (block, *rows) in blocks.items():
        own = [setting for setting in rows if not setting.path.startswith(TARGETS)]
        parts += [f"## `{name}`", block.note if re.search(r"Absent|Off", block.note) else "", items(map(setting_row, own))]
        if len(own) < len(rows):
            of_target = [setting for setting in rows if setting.path.startswith(TARGETS)]
            parts += ["## Targets\n\nEach of `tiers.fast.targets[]` and `tiers.deep.targets[]`:"]
            parts += [items(setting_row(setting, TARGETS) for setting in of_target)]
    return re.sub(r"\n{3,}", "\n\n", "\n\n".join(parts))


def kinds(registry: Mapping[str, type], attribute: str, prefix: str) -> str:
    rows = []
    for name, kind in registry.items():
        own = [setting for setting in list_settings(getattr(kind, attribute), prefix.format(name=name)) if not setting.is_block]
        rows += [f"**`{name}`**: {' '.join(kind.__doc__.partition(NEXT)[0].split())}"]
        rows += [setting_row(setting) for setting in own if not setting.path.startswith("rules.")]
    return items(rows)


def keys() -> str:
    named = Setting("callers", "", "By name (letters, digits, `._@+-`).")
    return items(map(setting_row, [named, *list_settings(key_file.CallerSettings, "callers.NAME.")]))


def model_names() -> str:
    by_meaning: dict[str, list[str]] = {}
    for name, meaning in models.SHIPPED_MODELS.items():
        by_meaning.setdefault(meaning, []).append(f"`{name}`")
    return "; ".join(f"{meaning}: {', '.join(names)}" for meaning, names in by_meaning.items())


def list_errors() -> list[tuple[str, object, str]]:
    """Code, status and meaning."""

    def below(kind: type[errors.TandemError]) -> Iterator[tuple[str, object, str]]:
        for child in kind.__subclasses__():
            if "code" in vars(child):
                status = "the target's" if child is errors.UpstreamRefused else child.status
                yield child.code, status, " ".join(child.__doc__.split())
            yield from below(child)

    first = (errors.TandemError.code, 500, "A bug in Tandem.")
    faulty = ("config_faulty", 422, "See `faults`. Nothing was changed.")
    return [first, faulty, *below(errors.TandemError)]


def error_table() -> str:
    return items((f"`{code}` ({status}): {meaning}" for code, status, meaning in list_errors()))


def header_table(headers: Mapping[str, str]) -> str:
    return items((f"`{name}`: {text}" for name, text in headers.items()))


def plan_differences() -> str:
    """By side: what differs and why, then the headers that stay here."""
    parts = []
    for side, title in ((Side.REQUEST, "request"), (Side.ANSWER, "answer")):
        of_side = [row for row in DIFFERENCES if row.side is side]
        whole = [f"{row.what[0].upper()}{row.what[1:]}." for row in of_side if not (row.headers and "header" in row.what)]
        names = sorted({name for row in of_side for name in row.headers.split()})
        kept = f"Not passed on: {', '.join(f'`{name}`' for name in names)}."
        parts += [f"\n\nOf {title}s:", items([*whole, kept])]
    return re.sub(r"\n{3,}", "\n\n", "".join(parts))


def metric_tables() -> str:
    parts = []
    for kind in Kind:
        rows = (
            f"`{metric.name}{'{' + ','.join(metric.labels) + '}' if metric.labels else ''}`: {metric.help}"
            for metric in METRICS
            if metric.kind is kind
        )
        parts += [f"\n\n### {kind.value.title()}s", items(rows)]
    return re.sub(r"\n{3,}", "\n\n", "".join(parts))


def list_events() -> list[tuple[str, str, str]]:
    """Name, level and meaning."""
    source = inspect.getsource(events)
    found = [("request.settled", "info", inspect.getdoc(events.request_settled) or "")]  # written without structlog
    for name, function in inspect.getmembers(events, inspect.isfunction):
        line = re.search(rf'def {name}\(.*?_log\.(\w+)\(\s*"([a-z_.]+)"', source, re.DOTALL)
        if line and function.__module__ == events.__name__ and "_log." in inspect.getsource(function):
            found.append((line.group(2), line.group(1), " ".join(function.__doc__.split())))
    return sorted(found)


def event_tables() -> str:
    levels = ("error", "warning", "info")
    rows = {level: [f"`{name}`: {what}" for name, of, what in list_events() if of == level] for level in levels}
    return re.sub(r"\n{3,}", "\n\n", "".join(f"\n\n### Level {level}{items(rows[level])}" for level in levels))


def span_attributes() -> str:
    """By the spans that have them."""
    spans = dict.fromkeys(row.spans for row in genai.ATTRIBUTES)
    rows = {of: items(f"`{row.name}`: {row.meaning}" for row in genai.ATTRIBUTES if row.spans == of) for of in spans}
    return "".join(f"\n\nOn {', '.join(of)}:{listed}" for of, listed in rows.items()).replace("\n\n\n\n", "\n\n")


def span_events() -> str:
    return items(f"`{row.name}` ({', '.join(f'`{name}`' for name in row.attributes)}): {row.meaning}" for row in genai.EVENTS)


def field_table(notes: Mapping[str, str]) -> str:
    return items((f"`{name}`: {note}" for name, note in notes.items()))


def entry_columns() -> dict[str, str]:
    """Each column of `entries` with its meaning."""
    own = {
        "sequence": "Number of the row.",
        "replica": "The router that wrote it (`shared.replica`).",
        "worker": "No longer written.",
        "outcome": f"{', '.join(f'`{word}`' for word in Outcome)}.",
        "decision": "JSON, below.",
        "attempts": "JSON, below.",
        "prompt_text": "With `ledger.keep_text`.",
        "answer_text": "With `ledger.keep_text`.",
    }
    notes = field_notes(Line) | own
    return {name: notes[name] for name in dict.fromkeys([*tables_of(LEDGER)["entries"], *Line.__struct_fields__])}


def ledger_tables() -> str:
    columns = {name: tuple(of) for name, of in tables_of(LEDGER).items() if name != "entries"}
    columns["days"] = tuple(column for column in columns["days"] if column not in columns["hours"])
    rows = [f"`{name}`: {TABLES[name]}: {', '.join(f'`{column}`' for column in of)}." for name, of in columns.items()]
    return items([*rows, "`upkeep`: times by which old rows are deleted: `name`, `at`, `start`."])


def fill(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"tandem {name}")
    fill_parser(parser, name)
    return parser


def options_of(name: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The common options of a command, and its own arguments with their help."""
    common, own = [], []
    for action in fill(name)._actions:
        if action.help is argparse.SUPPRESS or action.dest == "help":
            continue
        known = next((option for option in action.option_strings if option in COMMON), None)
        if known is not None:
            common.append(known)
        else:
            setting = SETTING_OF.get(action.dest if name == "keys" else "")
            own.append((say_argument(action), f"`{setting}`" if setting else say_help(action)))
    return common, own


def say_argument(action: argparse.Action) -> str:
    """As it is typed: `--port PORT`, `fast|deep`."""
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    if not action.option_strings:
        return f"{value}"
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction) else f"{names} {value}"


def say_help(action: argparse.Action) -> str:
    return (action.help or "") % {"default": action.default}


def common_options() -> str:
    rows = [f"`{typed}`: {what}" for typed, what in COMMON.values()]
    for number, option in enumerate(COMMON):
        if option in USUAL:
            rows[number] += f". Not for {', '.join(name for name in COMMANDS if option not in options_of(name)[0])}."
    return items(rows)


def commands() -> str:
    listed = [name for group in GROUPS.values() for name in group]
    groups = {**GROUPS, "For other programs": {name: COMMANDS[name] for name in COMMANDS if name not in listed}}
    parts = []
    for group, names in groups.items():
        parts += [f"## {group}"]
        for name, summary in names.items():
            common, own = options_of(name)
            named = [f"`{option}`" for option in common if option not in USUAL]
            takes = f" ({', '.join(named)})" if named else ""
            parts += [f"### {name}", f"{summary[0].upper()}{summary[1:]}{takes}."]
            parts += ["\n".join(f"- `{typed}`: {help_text}" for typed, help_text in own)] if own else []
    return "\n\n" + "\n\n".join(parts) + "\n\n"


def exits() -> str:
    """By command: each code with its meaning."""
    said = {name: "; ".join(f"{code} {what}" for code, what in codes.items()) for name, codes in EXITS.items()}
    return items(f"`{name}`: {meaning}" for name, meaning in said.items())


REFERENCE: Mapping[str, Callable[[], str]] = {
    "settings": settings,
    "model-names": model_names,
    "adapters": lambda: kinds(ADAPTERS, "Settings", "options."),
    "policies": lambda: kinds(POLICIES, "Config", "{name}."),
    "keys": keys,
    "errors": error_table,
    "request-headers": lambda: header_table(HEADERS | OTHERS),
    "response-headers": lambda: header_table(ANSWERS),
    "plan-differences": plan_differences,
    "metrics": metric_tables,
    "events": event_tables,
    "conventions": lambda: genai.CONVENTIONS,
    "span-attributes": span_attributes,
    "span-events": span_events,
    "entry-columns": lambda: items((f"`{name}`: {note}" for name, note in entry_columns().items())),
    "decision-fields": lambda: field_table(field_notes(KeptDecision)),
    "attempt-fields": lambda: field_table(field_notes(Attempt)),
    "ledger-tables": ledger_tables,
    "common-options": common_options,
    "commands": commands,
    "exits": exits,
}
"""Facts that only pages of the reference state."""
