"""Questions on a terminal, each with a default. Without a terminal nothing is asked."""

import sys
from collections.abc import Sequence

from router.cli.common import say
from router.config.faults import close_to

_SHOWN = 40


def confirm(question: str) -> bool:
    """Enter means yes; the end of input, or no terminal, no."""
    if not sys.stdin.isatty():
        say("nothing was changed\n  hint: --yes changes the files without asking")
        return False
    line = _ask(f"{question} [Y/n] ")
    if _is_yes(line):
        return True
    say("nothing was changed" if line else "\nnothing was changed")
    return False


def offer(question: str, *, usual: bool = False) -> bool:
    """Enter, or no terminal, means `usual`; the end of input, no."""
    if not sys.stdin.isatty():
        return usual
    line = _ask(f"{question} [{'Y/n' if usual else 'y/N'}] ")
    return _is_yes(line) if usual else line.strip().lower() in ("y", "yes")


def _ask(question: str) -> str:
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()


def _is_yes(line: str) -> bool:
    return bool(line) and line.strip().lower() in ("", "y", "yes")


class Interview:
    """Questions go to standard error: standard output may be a file."""

    def __init__(self, *, asks: bool) -> None:
        self._asks = asks

    def choose_many(self, question: str, titles: Sequence[str], usual: Sequence[int]) -> list[int]:
        if not self._asks or not titles:
            return list(usual)
        say(f"\n{question}")
        for number, title in enumerate(titles, start=1):
            say(f"  {number}  {title}")
        default = " ".join(str(index + 1) for index in usual)
        while True:
            numbers = self._read(f"numbers, preferred first [{default}]: ").replace(",", " ").split()
            if not numbers:
                return list(usual)
            chosen = [int(number) - 1 for number in numbers if number.isascii() and number.isdigit()]
            if len(chosen) == len(numbers) and all(0 <= index < len(titles) for index in chosen):
                return list(dict.fromkeys(chosen))
            say(f"  numbers from 1 to {len(titles)}, separated by spaces")

    def choose_model(self, title: str, usual: str, listed: Sequence[str]) -> str:
        """`?` lists the models."""
        while self._asks:
            more = ", ? lists them" if listed else ""
            answer = self._read(f"model of {title} [{usual}]{more}: ")
            if answer == "?":
                self._list(listed)
            elif not answer or answer in listed or not listed:
                return answer or usual
            else:
                say(f"  {title} does not list {answer}; {close_to(answer, listed) or '? lists what it has'}".rstrip())
        return usual

    def _list(self, listed: Sequence[str]) -> None:
        for name in sorted(listed)[:_SHOWN]:
            say(f"  {name}")
        if len(listed) > _SHOWN:
            say(f"  and {len(listed) - _SHOWN} more")

    def _read(self, prompt: str) -> str:
        print(prompt, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:  # the end of input answers all remaining questions with Enter
            self._asks = False
            say("")
        return line.strip()
