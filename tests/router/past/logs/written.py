"""Logs of every client, written and read again."""

from router.past.logs import find_logs, read_logs
from router.past.logs.lines import Tally
from tests.tools.histories import LONG, QUICK, Told, claude_log, codex_log

TURNS = [QUICK, LONG, Told("it is still wrong", ("Bash",)), Told("thanks")]


FORMATS = {
    "codex": ("rollout-1.jsonl", codex_log),
    "claude-code": ("one.jsonl", claude_log),
}


def read(folder, *texts: tuple[str, str]):
    tally, files = Tally(), []
    for name, text in texts:
        (folder / name).write_text(text)
        files += find_logs([folder / name], tally)
    return list(read_logs(files, tally)), tally
