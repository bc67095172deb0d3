"""`tandem eval --complaints`."""

import asyncio
from dataclasses import asdict
from pathlib import Path

from router.cli import Ended
from router.cli.common import print_json, rounded
from router.cli.progress import Progress
from router.config.load import LoadedConfig
from router.lab.complaints import Heard, count_heard, is_heard
from router.lab.items import BadData, Remark, load_remarks
from router.wiring import build_house


def run(loaded: LoadedConfig, paths: list[Path], *, as_json: bool) -> int:
    """Say how many complaints are heard, and how often something else is taken for one."""
    try:
        remarks = load_remarks(paths)
    except BadData as error:
        raise Ended(2, str(error)) from error
    if not remarks:
        raise Ended(2, 'these files contain no remarks: a line needs "asked", "says" and the label "bad" or "fine"')
    heard = _judge(loaded, remarks)
    if as_json:
        rates = {"catch": rounded(heard.catch), "false_alarm": rounded(heard.false_alarm)}
        print_json({**rates, **asdict(heard)})
        return 0
    print(f"catch        {_share(heard.caught, heard.bad)} complaints about the turn before are heard")
    print(f"false alarm  {_share(heard.alarms, heard.fine)} other remarks are taken for a complaint")
    return 0


def _judge(loaded: LoadedConfig, remarks: list[Remark]) -> Heard:
    built = build_house(loaded, with_ledger=False)
    try:
        with asyncio.Runner() as runner, Progress("listening", len(remarks)) as progress:
            found = []
            for remark in remarks:
                found.append(runner.run(is_heard(built.house, remark)))
                progress.advance(1)
            return count_heard(remarks, found)
    finally:
        built.house.state.counter.close()


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f}  {part} of {whole}" if whole else f"-      0 of {whole}"
