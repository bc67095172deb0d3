"""`tandem replay --combine` for people."""

from router.cli.figures import duration, money, plural
from router.contract.combine import LookWhen
from router.past.combined import UNKNOWN_QUALITY, LookReport, PlanReport


def write_combined(report: PlanReport | LookReport) -> list[str]:
    lines = ["no turns"]
    if report.turns:
        lines = _write_plan(report) if isinstance(report, PlanReport) else _write_looks(report)
        lines.append(f"quality        {UNKNOWN_QUALITY}")
    if report.unservable:
        lines.append(f"left out       {plural(report.unservable, 'turn')} that no target of the config could serve")
    return lines


def _write_plan(report: PlanReport) -> list[str]:
    before, after = report.before, report.after
    lines = [
        f"{plural(report.turns, 'turn')} with combine: plan, next to what the config chooses",
        "",
        f"planning       {plural(report.planned, 'turn')}, all on deep",
        f"boundaries     {plural(report.boundaries, 'plan')} followed by work, which goes to fast until something fails",
        f"moved          {plural(report.moved, 'turn')} to the other tier",
        f"hops           {report.hops_before} → {report.hops_after}",
        f"time, about    {duration(before.seconds)} → {duration(after.seconds)} over {report.timed} turns of known size",
        f"cost, about    {money(before.usd)} → {money(after.usd)}",
    ]
    if report.unknown:
        told = f"{plural(report.unknown, 'turn')} whose plan mode is not recorded"
        lines.append(f"not known      {told}: clients' logs have it, and ledgers from when plan was on")
    return lines


def _write_looks(report: LookReport) -> list[str]:
    lines = [
        f"{plural(report.turns, 'turn')} with combine: look",
        "",
        f"on fast        {plural(report.on_fast, 'turn')}, {report.edited} of them with edits",
    ]
    for when in (LookWhen.AUTO, LookWhen.ALWAYS):
        taken = report.sums[when]
        took = f"about {duration(taken.seconds)} more until answers end, {money(taken.usd)}"
        lines.append(f"look: {when:<8} {plural(report.looks[when], 'look')}, {took}")
    if report.late:
        lines.append(f"too late       {report.late} of them, expected to take more than {report.max_seconds:g} s")
    lines.append("at most        passing test runs are not recorded: turns that ended with one are not looked at")
    return lines
