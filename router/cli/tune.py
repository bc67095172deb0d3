"""`tandem tune`."""

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from router.cli import Ended
from router.cli.common import (
    add_config_argument,
    command_name,
    load_in_use,
    path_of,
    print_json,
    say,
    table_path,
)
from router.cli.config_file import NewRule, add_rules, change_config, set_values
from router.cli.past.applied import Record, record_path, undo
from router.cli.past.history import PastFiles, add_history_arguments, find_history, without_collection
from router.cli.past.tuning import (
    as_json,
    kinds_json,
    list_kinds,
    readable,
    say_merged,
    taught_json,
    write_offsets,
    write_taught,
)
from router.cli.progress import Progress
from router.config.load import LoadedConfig
from router.contract.decision import ESTIMATE
from router.contract.economics import Offset
from router.contract.features import pack_places
from router.contract.personal import BadTable, PersonalTable, TableUnreadable, load_personal
from router.contract.stores import StoreUnusable
from router.past.cases import Case, Sample
from router.past.marks import Taught, merge
from router.past.replay import choose_again, choose_from_kept, quiet
from router.past.tune import RESAMPLINGS, Fit, Tuning, as_sample, say_what_lacks, teach, tune, without_taught
from router.screen.figures import plural
from router.stores.sqlite.marks import keep_places
from router.telemetry import events
from router.wiring.build import build_house

EXAMPLES = ("tune", "tune --apply", "tune --since 90d", "tune --show", "tune --undo")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    add_history_arguments(parser)
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--apply",
        action="store_true",
        help="write it into the config (a copy is kept)",
    )
    action.add_argument("--show", action="store_true", help="list what marks taught")
    action.add_argument("--undo", action="store_true", help="undo what it changed: the last --apply")
    action.add_argument("--forget", action="store_true", help="delete what marks taught; the marks stay")
    parser.add_argument("--anyway", action="store_true", help="--apply even if held-out turns may get worse")
    parser.add_argument("--json", action="store_true", help="print JSON: the result")


@without_collection()
def run(arguments: argparse.Namespace) -> int:
    """Fit, show the change on held-out turns, and write only with `--apply`."""
    events.set_up_logging(as_json=True)
    loaded = load_in_use(arguments.config, needs_keys=False)
    if arguments.forget:
        return _forget(loaded)
    if arguments.undo:
        return undo(loaded)
    if arguments.show:
        return _show_taught(arguments, loaded)
    history = find_history(arguments, loaded, joins=True)
    samples = _read_samples(history, loaded)
    history.say()
    decision, weights = loaded.config.decision, loaded.weights_fingerprint
    present = Fit(decision.base_rate, decision.personal_log_odds)
    taught = teach(samples, present, weights)
    rest = without_taught(samples, taught)
    with Progress("resampling", RESAMPLINGS) as progress:
        tuning = tune(rest, present, progress.advance, is_personal=decision.personal)
    if tuning is not None and taught is not None and _takes_offset(tuning, arguments):
        taught = teach(samples, tuning.fitted, weights)  # marked turns must land over the new line
    _show(arguments, tuning, taught, present, rest, history.read_offsets(loaded))
    return _apply(arguments, tuning, taught, loaded, history) if arguments.apply else 0


def _show(
    arguments: argparse.Namespace,
    tuning: Tuning | None,
    taught: Taught | None,
    present: Fit,
    samples: list[Sample],
    offsets: Mapping[str, Offset],
) -> None:
    lacking = "" if tuning is not None else f"too little history: {say_what_lacks(samples)}"
    if lacking:
        say(f"{lacking}. {'Rules and values stay as they are' if taught else 'Nothing was changed'}")
    if arguments.json:
        marks = taught_json(taught) if taught else None
        callers = {caller: offset._asdict() for caller, offset in offsets.items()}
        print_json({**as_json(tuning, present, len(samples), lacking), "marks": marks, "callers": callers})
        return
    parts = [readable(tuning)] if tuning is not None else []
    parts += [write_taught(taught)] if taught is not None else []
    parts += [write_offsets(offsets)] if offsets else []
    if parts:
        print("\n\n".join(parts))


def _read_samples(history: PastFiles, loaded: LoadedConfig) -> list[Sample]:
    built = build_house(_without_table(loaded), with_ledger=False)
    house, samples, skipped = quiet(built.house), [], Counter[str]()
    with asyncio.Runner() as runner:
        try:
            # Not `runner.run`, whose handler of Ctrl-C writes every turn into a text. Without it, Ctrl-C raises at once.
            choose = runner.get_loop().run_until_complete
            for case in history.cases("tuning"):
                if reason := _why_skipped(case, loaded.weights_fingerprint):
                    skipped[reason] += 1
                    continue
                has_text = case.arrival is not None
                choice = choose(choose_again(house, case)) if has_text else choose_from_kept(house, case)
                is_foreign = _is_foreign(case, loaded.weights_fingerprint)
                sample = as_sample(case, choice, is_foreign=is_foreign) if choice is not None else None
                if sample is None:
                    skipped["that no target can serve now"] += 1
                else:
                    samples.append(sample)
        finally:
            runner.run(built.close())
    if skipped:
        reasons = ", ".join(f"{count} {reason}" for reason, count in skipped.most_common())
        say(f"skipped {skipped.total()} of {plural(skipped.total() + len(samples), 'turn')}: {reasons}")
    return samples


def _is_foreign(case: Case, weights: str) -> bool:
    """Whether other weights scored a turn, and its text is not there to score it again."""
    return case.arrival is None and case.kept is not None and case.kept.weights != weights


def _why_skipped(case: Case, weights: str) -> str:
    if not case.is_clear:
        return "not known to be quick or long"
    if not _is_foreign(case, weights) or (case.is_marked and case.places):
        return ""  # a mark teaches under any weights
    if case.kept is not None and case.kept.decided_by != ESTIMATE:
        return "scored with other weights, though something else decided"
    return "scored with other weights and recorded without text"


def _without_table(loaded: LoadedConfig) -> LoadedConfig:
    """Drop what marks taught before, which would count twice."""
    policies = tuple(
        (name, settings.model_copy(update={"personal": ""}) if hasattr(settings, "personal") else settings)
        for name, settings in loaded.policies
    )
    return replace(loaded, policies=policies)


def _takes_offset(tuning: Tuning, arguments: argparse.Namespace) -> bool:
    """Values that may do harm need `--anyway`."""
    return bool(arguments.apply) and (arguments.anyway or not tuning.offset_may_harm) and tuning.fitted != tuning.present


def _apply(
    arguments: argparse.Namespace, tuning: Tuning | None, taught: Taught | None, loaded: LoadedConfig, history: PastFiles
) -> int:
    record = Record(loaded)
    wrote_table = _write_table(taught, loaded, history, record)
    if tuning is None:
        return 0 if taught is not None or wrote_table else 1
    has_offset = _takes_offset(tuning, arguments)
    is_refused = tuning.offset_may_harm and not arguments.anyway and tuning.fitted != tuning.present
    if is_refused:
        told = "not applied" if not tuning.rules else "base_rate and personal_log_odds were not applied"
        say(f"{told}: the held-out part may get worse\n  hint: more history, or --anyway")
    if not tuning.rules and not has_offset:
        if not is_refused and not wrote_table:
            say("nothing was written: the config already has these values")
        return 0 if not is_refused or wrote_table else 1
    values = _write_values(tuning.fitted, loaded.weights_fingerprint) if has_offset else {}
    present = loaded.config.decision
    before = _write_values(tuning.present, present.fitted_to) if has_offset else {}
    rules = _write_rules(tuning)
    changed = change_config(path_of(loaded), lambda text: _change(text, values, rules))
    record.note_config(changed, before, tuple(rule.as_line() for rule in rules))
    return 0


def _write_values(fit: Fit, weights: str) -> dict[str, float | str]:
    return {"base_rate": fit.base_rate, "personal_log_odds": fit.personal_log_odds, "fitted_to": weights}


def _write_rules(tuning: Tuning) -> list[NewRule]:
    today = time.strftime("%Y-%m-%d")
    return [
        NewRule(rule.words, rule.tier, f"tandem tune, {today}: right in {rule.total_right} of {rule.total_seen} turns")
        for rule in tuning.rules
    ]


def _change(text: str, values: dict[str, float | str], rules: list[NewRule]) -> str:
    if values:
        text = set_values(text, "decision", values)
    return add_rules(text, rules) if rules else text


def _write_table(taught: Taught | None, loaded: LoadedConfig, history: PastFiles, record: Record) -> bool:
    """Merge what was taught into the table. Returns whether that changed."""
    path, weights = table_path(loaded), loaded.weights_fingerprint
    if path is None:
        return False
    try:
        old = load_personal(str(path)) or PersonalTable(weights)
    except TableUnreadable as error:
        raise Ended(1, f"not applied: {error}") from error
    except BadTable as error:
        say(f"{error}; it is written again")
        old = PersonalTable(weights)
    if taught is None and history.removed_marks.isdisjoint(name for kind in old.kinds for name in kind.requests):
        return False
    new = taught.table if taught is not None else PersonalTable(weights, common=old.common)
    known = taught.requests if taught is not None else {}
    merged = merge(old, new, known, history.removed_marks, time.time())
    if merged.table == old or not (merged.table.kinds or old.kinds):
        return False
    record.write_table(path, merged.table)
    say(f"wrote {path}: {say_merged(merged)}. {command_name()} reload has a running router use it")
    say("  to undo: tandem tune --undo")
    if history.ledger is not None and loaded.config.ledger.keep_word_hashes:
        _keep_places(history, known)
    return True


def _keep_places(history: PastFiles, known: Mapping[str, tuple[int, ...]]) -> None:
    """Keep with the marks what was read from text, which will be gone one day."""
    lacking = [case.request for case in history.recorded if case.is_marked and not case.places]
    found = {name: pack_places(known[name]) for name in lacking if name in known}
    if found and history.ledger is not None:
        try:
            keep_places(history.ledger, found)
        except StoreUnusable as error:
            say(f"{plural(len(found), 'mark')} will be known for as long as the text is: {error}")


def _show_taught(arguments: argparse.Namespace, loaded: LoadedConfig) -> int:
    path = table_path(loaded)
    try:
        table = load_personal(str(path)) if path is not None else None
    except BadTable as error:
        raise Ended(1, str(error)) from error
    kinds = table.kinds if table is not None else ()
    if arguments.json:
        print_json({"file": str(path) if path is not None else None, "kinds": kinds_json(kinds)})
    elif kinds:
        print("\n".join(list_kinds(kinds)))
    else:
        say("marks have taught nothing yet\n  hint: tandem wrong marks a turn, and tandem tune --apply learns from it")
    return 0


def _forget(loaded: LoadedConfig) -> int:
    """The marks stay in the ledger for the next `--apply`."""
    path = table_path(loaded)
    if path is None or not path.exists():
        say("nothing to forget: no marks were applied")
        return 0
    try:
        is_ours = load_personal(str(path)) is not None
    except BadTable as error:
        raise Ended(1, f"not deleted: {error}") from error
    path.unlink(missing_ok=is_ours)
    record_path(loaded).unlink(missing_ok=True)
    say(f"deleted {path}. {command_name()} reload has a running router use it")
    say("  the marks stay in the ledger, and the next tandem tune --apply uses them; tandem wrong removes one")
    return 0
