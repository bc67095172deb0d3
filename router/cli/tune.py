"""`tandem tune`."""

import argparse
import asyncio
from collections import Counter
from pathlib import Path

from router.cli.common import add_config_argument, command_name, free_backup, load_or_report, print_json, say
from router.cli.past.history import PastFiles, add_history_arguments, find_history
from router.config.edit import CannotEdit, set_values
from router.config.load import ConfigError, LoadedConfig, check_config, find_config
from router.contract.decision import ESTIMATE
from router.contract.request import JsonObject
from router.lab.replay import choose_again, quiet
from router.lab.tune import Change, Fit, Sample, Tuning, as_sample, say_what_lacks, tune
from router.screen.figures import plural
from router.telemetry import events
from router.wiring import build_house, known_names

EXAMPLES = (
    "tune",
    "tune --apply",
    "tune --ledger --json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_config_argument(parser)
    add_history_arguments(parser)
    parser.add_argument("--apply", action="store_true", help="write the fitted values into the config (the old file is kept)")
    parser.add_argument("--force", action="store_true", help="apply even if the held-out part of your history may get worse")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Fit, show the change on what was held out, and write only when told to."""
    events.set_up_logging(as_json=True)
    loaded = load_or_report(arguments.config)
    if loaded is None:
        return 2
    history = find_history(arguments, loaded, joins=True)
    if history is None:
        return 2
    samples = _read_samples(history, loaded)
    history.say()
    if history.is_unknown():
        return 2
    decision = loaded.config.decision
    present = Fit(decision.base_rate, decision.personal_log_odds)
    tuning = tune(samples, present)
    if tuning is None:
        lacking = f"too little history: {say_what_lacks(samples)}"
        say(f"{lacking}. Nothing was changed")
        if arguments.json:
            print_json({"present": _fit_json(present), "fitted": None, "known_turns": len(samples), "because": lacking})
        return 1 if arguments.apply else 0
    if arguments.json:
        print_json(_as_json(tuning))
    else:
        print(_readable(tuning))
    return _apply(arguments, tuning, loaded.weights_fingerprint) if arguments.apply else 0


def _read_samples(history: PastFiles, loaded: LoadedConfig) -> list[Sample]:
    built = build_house(loaded, with_ledger=False)
    house, samples, skipped = quiet(built.house), [], Counter[str]()
    with asyncio.Runner() as runner:
        try:
            # One run for each turn: inside a run, Ctrl-C is heard only where something waits, and reading a log never does.
            for case in history.cases("tuning"):
                if case.arrival is None and case.kept is not None and case.kept.weights != loaded.weights_fingerprint:
                    # What the words said then was said by other weights, and there are none to read again.
                    was_asked_for = case.kept.decided_by != ESTIMATE
                    skipped["a tier was asked for" if was_asked_for else "recorded without text"] += 1
                    continue
                choice = runner.run(choose_again(house, case))
                sample = as_sample(case, choice) if choice is not None else None
                if sample is not None:
                    samples.append(sample)
        finally:
            runner.run(built.close())
    if skipped:
        reasons = ", ".join(f"{count}: {reason}" for reason, count in sorted(skipped.items()))
        say(f"skipped {plural(skipped.total(), 'turn')} of the ledger that were scored with other weights ({reasons})")
    return samples


def _apply(arguments: argparse.Namespace, tuning: Tuning, weights: str) -> int:
    """Write the two values into the file, and the weights that they belong to, if they do no harm that can be seen."""
    if tuning.fitted == tuning.present:
        say("nothing was written: the config already has these values")
        return 0
    if tuning.regret_per_100.may_harm and not arguments.force:
        say("not applied: the held-out part may get worse\n  hint: more history, or --force")
        return 1
    path = find_config(arguments.config)
    if path is None:
        say(f"there is no config file to write to\n  hint: {command_name()} init writes one")
        return 2
    values: dict[str, float | str] = {
        "base_rate": tuning.fitted.base_rate,
        "personal_log_odds": tuning.fitted.personal_log_odds,
        "fitted_to": weights,
    }
    try:
        old = path.read_bytes()
        new = set_values(old.decode("utf-8"), "decision", values)
        check_config(new, str(path), path.resolve().parent, known_names())
        kept = _write(path, old, new.encode("utf-8"))
    except (CannotEdit, ConfigError) as error:
        faults = "; ".join(str(fault) for fault in error.faults) if isinstance(error, ConfigError) else str(error)
        say(f"not applied: {faults}")
        return 1
    except OSError as error:
        say(f"not applied: {error.filename}: {error.strerror}")
        return 1
    say(f"wrote {path}; the old file is {kept.name}. Restart a running router to use it")
    return 0


def _write(path: Path, old: bytes, new: bytes) -> Path:
    """Keep the old file next to it, then put the new one in its place in one step, both with the rights of the old."""
    real = path.resolve()
    mode = real.stat().st_mode & 0o777
    kept = free_backup(path)
    _write_private(kept, old, mode)
    fresh = real.with_name(f".{real.name}.new")
    _write_private(fresh, new, mode)
    fresh.replace(real)
    return kept


def _write_private(path: Path, content: bytes, mode: int) -> None:
    """Write a file that at no moment may be read by more than its mode says."""
    path.touch(mode=0o600)
    path.write_bytes(content)
    path.chmod(mode)


def _as_json(tuning: Tuning) -> JsonObject:
    return {
        "present": _fit_json(tuning.present),
        "fitted": _fit_json(tuning.fitted),
        "learned_turns": tuning.learned_turns,
        "held_out_turns": tuning.held_out_turns,
        "held_out_sessions": tuning.held_out_sessions,
        "moved": tuning.moved,
        "regret_per_100": _change_json(tuning.regret_per_100),
        "log_loss": _change_json(tuning.log_loss),
        "may_harm": tuning.regret_per_100.may_harm,
    }


def _fit_json(fit: Fit) -> JsonObject:
    return {"base_rate": fit.base_rate, "personal_log_odds": fit.personal_log_odds}


def _change_json(change: Change) -> JsonObject:
    interval = [round(change.low, 4), round(change.high, 4)]
    return {"before": round(change.before, 4), "after": round(change.after, 4), "interval": [*interval]}


def _readable(tuning: Tuning) -> str:
    present, fitted = tuning.present, tuning.fitted
    lines = [
        f"fitted to {tuning.learned_turns} earlier turns, tested on {tuning.held_out_turns} later ones"
        f" ({tuning.held_out_sessions} sessions)",
        "",
        f"decision.base_rate          {present.base_rate:g} → {fitted.base_rate:g}",
        f"decision.personal_log_odds  {present.personal_log_odds:g} → {fitted.personal_log_odds:g}",
        "",
        f"tier changes    {tuning.moved} of {tuning.held_out_turns} turns",
        f"regret per 100  {_change(tuning.regret_per_100, 1)}",
        f"log loss        {_change(tuning.log_loss, 3)}",
        "",
        "The held-out part may get worse." if tuning.regret_per_100.may_harm else "No sign of harm on the held-out part.",
    ]
    return "\n".join(lines)


def _change(change: Change, digits: int) -> str:
    return (
        f"{change.before:.{digits}f} → {change.after:.{digits}f}"
        f" (change {change.low:+.{digits}f} to {change.high:+.{digits}f}; less is better)"
    )
