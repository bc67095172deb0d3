"""`tandem completion`: a shell's completion script, generated from the parsers."""

import argparse
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from router.cli import COMMANDS, build_parser

EXAMPLES = (
    "completion bash > ~/.local/share/bash-completion/completions/tandem",
    "completion zsh > ~/.zfunc/_tandem",
    "completion fish > ~/.config/fish/completions/tandem.fish",
)
_SHELLS = ("bash", "zsh", "fish")
_FILES = ("FILE", "DATA", "LOG", "FOLDER", "REQUEST.json")


@dataclass(frozen=True, slots=True)
class Option:
    names: tuple[str, ...]
    text: str
    choices: tuple[str, ...]
    takes_value: bool
    takes_file: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=_SHELLS, help="the shell")


def run(arguments: argparse.Namespace) -> int:
    _, parsers = build_parser(set(COMMANDS))
    commands = {name: list(_read_options(parser)) for name, parser in parsers.items()}
    print({"bash": _write_bash, "zsh": _write_zsh, "fish": _write_fish}[arguments.shell](commands))
    return 0


def _read_options(parser: argparse.ArgumentParser) -> Iterator[Option]:
    shown = (action for action in parser._actions if action.help != argparse.SUPPRESS)  # argparse has no public list
    for action in shown:
        text = " ".join((action.help or "").replace("%(default)s", str(action.default)).split())
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        yield Option(
            names=tuple(action.option_strings),
            text=text.replace("%(default)g", str(action.default)).replace("%%", "%"),
            choices=tuple(map(str, action.choices or ())),
            takes_value=action.nargs != 0,
            takes_file=metavar in _FILES,
        )


def _write_bash(commands: dict[str, list[Option]]) -> str:
    values, words = [], []
    for name, options in commands.items():
        given = [option for option in options if option.names]
        for option in given:
            if option.takes_value:
                pattern = "|".join(f'"{name} {flag}"' for flag in option.names)
                files = '_tandem_offer -f -- "$current"; return'
                chosen = f"words={shlex.quote(' '.join(option.choices))}"
                values.append(f"    {pattern}) {files if option.takes_file else chosen} ;;")
        listed = [flag for option in given for flag in option.names if flag != "-h"]
        listed += [choice for option in options if not option.names for choice in option.choices]
        words.append(f"    {name}) words={shlex.quote(' '.join(listed))} ;;")
    return f"""# bash completion of tandem
_tandem_offer() {{
  local word
  while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen "$@")
}}
_tandem() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" command="" word words
  COMPREPLY=()
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$word" in {"|".join(commands)}) command="$word"; break ;; esac
  done
  case "$command $previous" in
{chr(10).join(values)}
    *) case "$command" in
{chr(10).join(words)}
    *) words={shlex.quote(" ".join([*commands, "--help", "--version"]))} ;;
    esac ;;
  esac
  _tandem_offer -W "$words" -- "$current"
}}
complete -o default -F _tandem tandem"""


def _write_zsh(commands: dict[str, list[Option]]) -> str:
    listed = "\n".join(f"    {shlex.quote(f'{name}:{COMMANDS[name]}')}" for name in commands)
    cases = []
    for name, options in commands.items():
        specs = " \\\n        ".join(shlex.quote(spec) for option in options for spec in _zsh_specs(option))
        cases.append(f"      {name}) _arguments \\\n        {specs} ;;")
    return f"""#compdef tandem
_tandem() {{
  local -a commands
  commands=(
{listed}
  )
  _arguments -C '--help[show the commands]' '--version[show the version]' '1:command:->command' '*::argument:->argument'
  case $state in
    command) _describe command commands ;;
    argument) case $words[1] in
{chr(10).join(cases)}
    esac ;;
  esac
}}
if [ "$funcstack[1]" = _tandem ]; then _tandem "$@"; else compdef _tandem tandem; fi"""


def _zsh_specs(option: Option) -> list[str]:
    values = f"({' '.join(option.choices)})" if option.choices else "_files" if option.takes_file else " "
    text = option.text.replace("[", "(").replace("]", ")").replace(":", "\\:")
    if not option.names:
        return [f"*:{text}:{values}"]
    ending = f":value:{values}" if option.takes_value else ""
    return [f"{flag}[{text}]{ending}" for flag in option.names]


def _write_fish(commands: dict[str, list[Option]]) -> str:
    start = "complete -c tandem -f -n __fish_use_subcommand"
    lines = ["# fish completion of tandem", *(f"{start} -a {name} -d {_quote_fish(COMMANDS[name])}" for name in commands)]
    for name, options in commands.items():
        start = f"complete -c tandem -n '__fish_seen_subcommand_from {name}'"
        for option in options:
            choices = f" -a {_quote_fish(' '.join(option.choices))}" if option.choices else ""
            if option.names:
                flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.names)
                value = " -r" if option.takes_value else ""
                closed = " -f" if not option.takes_file else ""
                lines.append(f"{start} {flags}{value}{closed}{choices} -d {_quote_fish(option.text)}")
            elif choices:
                lines.append(f"{start} -f{choices}")
    return "\n".join(lines)


def _quote_fish(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
