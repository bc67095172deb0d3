"""`tandem tune`."""

import argparse
import asyncio
import time
from collections import Counter
from dataclasses import replace

from router.cli import Ended
from router.cli.common import add_config_argument, add_old_option, load_or_end, print_json, say, table_path
from router.cli.config_file import NewRule, add_rules, change_config, replace_file, set_values
from router.cli.past.history import PastFiles, add_history_arguments, find_history
from router.cli.past.tuning import as_json, readable, taught_json, write_taught
from router.cli.progress import Progress
from router.config.load import LoadedConfig
from router.contract.decision import ESTIMATE
from router.contract.personal import BadTable, load_personal, write_personal
from router.past.cases import Sample
from router.past.marks import Taught
from router.past.replay import choose_again, choose_from_kept, quiet
from router.past.tune import RESAMPLINGS, Fit, Tuning, as_sample, say_what_lacks, teach, tune, without_taught
from router.screen.figures import plural
from router.telemetry import events
from router.wiring.build import build_house

EXAMPLES = ("tune", "tune --apply", "tune --ledger --json", "tune --forget")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    add_history_arguments(parser)
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--apply",
        action="store_true",
        help="write rules and values into the config (the old file is kept), and what marks taught",
    )
    action.add_argument("--forget", action="store_true", help="delete what marks taught (personal.json); the marks stay")
    add_old_option(parser, "--force", "anyway", action="store_true")
    parser.add_argument("--anyway", action="store_true", help="apply even if the held-out part of your history may get worse")
    parser.add_argument("--json", action="store_true", help="print JSON: the result")


def run(arguments: argparse.Namespace) -> int:
    """Fit, show the change on held-out turns, and write only with `--apply`."""
    events.set_up_logging(as_json=True)
    loaded = load_or_end(arguments.config)
    if arguments.forget:
        return _forget(loaded)
    history = find_history(arguments, loaded, joins=True)
    samples = _read_samples(history, loaded)
    history.say()
    decision, weights = loaded.config.decision, loaded.weights_fingerprint
    present = Fit(decision.base_rate, decision.personal_log_odds)
    taught = teach(samples, present, weights)
    rest = without_taught(samples, taught)
    with Progress("resampling", RESAMPLINGS) as progress:
        tuning = tune(rest, present, progress.advance)
    if tuning is not None and taught is not None and _takes_offset(tuning, arguments):
        taught = teach(samples, tuning.fitted, weights)  # marked turns must land over the new line
    _show(arguments, tuning, taught, present, rest)
    return _apply(arguments, tuning, taught, loaded) if arguments.apply else 0


def _show(
    arguments: argparse.Namespace, tuning: Tuning | None, taught: Taught | None, present: Fit, samples: list[Sample]
) -> None:
    lacking = "" if tuning is not None else f"too little history: {say_what_lacks(samples)}"
    if lacking:
        say(f"{lacking}. {'Rules and values stay as they are' if taught else 'Nothing was changed'}")
    if arguments.json:
        print_json({**as_json(tuning, present, len(samples), lacking), "marks": taught_json(taught) if taught else None})
        return
    parts = [readable(tuning)] if tuning is not None else []
    parts += [write_taught(taught)] if taught is not None else []
    if parts:
        print("\n\n".join(parts))


def _read_samples(history: PastFiles, loaded: LoadedConfig) -> list[Sample]:
    built = build_house(_without_table(loaded), with_ledger=False)
    house, samples, skipped = quiet(built.house), [], Counter[str]()
    with asyncio.Runner() as runner:
        weights = loaded.weights_fingerprint
        try:
            # A run per turn with text, since Ctrl-C is noticed only between runs.
            for case in history.cases("tuning"):
                if case.arrival is None and case.kept is not None and case.kept.weights != weights:
                    # Scored with other weights, and without text to score again.
                    was_asked_for = case.kept.decided_by != ESTIMATE
                    skipped["a tier was asked for" if was_asked_for else "recorded without text"] += 1
                    continue
                has_text = case.arrival is not None
                choice = runner.run(choose_again(house, case)) if has_text else choose_from_kept(house, case)
                sample = as_sample(case, choice) if choice is not None else None
                if sample is not None:
                    samples.append(sample)
        finally:
            runner.run(built.close())
    if skipped:
        reasons = ", ".join(f"{count}: {reason}" for reason, count in sorted(skipped.items()))
        say(f"skipped {plural(skipped.total(), 'turn')} of the ledger that were scored with other weights ({reasons})")
    return samples


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


def _apply(arguments: argparse.Namespace, tuning: Tuning | None, taught: Taught | None, loaded: LoadedConfig) -> int:
    wrote_table = _write_table(taught, loaded)
    if tuning is None:
        return 0 if taught is not None else 1
    has_offset = _takes_offset(tuning, arguments)
    is_refused = tuning.offset_may_harm and not arguments.anyway and tuning.fitted != tuning.present
    if is_refused:
        told = "not applied" if not tuning.rules else "base_rate and personal_log_odds were not applied"
        say(f"{told}: the held-out part may get worse\n  hint: more history, or --anyway")
    if not tuning.rules and not has_offset:
        if not is_refused and not wrote_table:
            say("nothing was written: the config already has these values")
        return 0 if not is_refused or wrote_table else 1
    change_config(arguments, lambda text: _change(text, tuning, loaded.weights_fingerprint, has_offset=has_offset))
    return 0


def _change(text: str, tuning: Tuning, weights: str, *, has_offset: bool) -> str:
    if has_offset:
        fitted = tuning.fitted
        values: dict[str, float | str] = {
            "base_rate": fitted.base_rate,
            "personal_log_odds": fitted.personal_log_odds,
            "fitted_to": weights,
        }
        text = set_values(text, "decision", values)
    today = time.strftime("%Y-%m-%d")
    rules = [
        NewRule(rule.words, rule.tier, f"tandem tune, {today}: right in {rule.total_right} of {rule.total_seen} turns")
        for rule in tuning.rules
    ]
    return add_rules(text, rules) if rules else text


def _write_table(taught: Taught | None, loaded: LoadedConfig) -> bool:
    """Returns whether the table changed."""
    path = table_path(loaded)
    if taught is None or path is None or not taught.table.kinds:
        return False
    content = write_personal(taught.table)
    try:
        if path.is_file() and path.read_bytes() == content:
            return False
        replace_file(path, content, 0o600)
    except OSError as error:
        raise Ended(1, f"not applied: {error.filename}: {error.strerror}") from error
    say(f"wrote {path}: what {taught.marks} marked turns taught. Restart a running router to use it")
    say("  to undo: tandem tune --forget")
    return True


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
    say(f"deleted {path}. Restart a running router to use it")
    say("  the marks stay in the ledger, and the next tandem tune --apply uses them; tandem wrong removes one")
    return 0
