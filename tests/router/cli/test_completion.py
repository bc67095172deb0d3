"""`tandem completion`."""

import shutil
import subprocess

import pytest

from router.cli import COMMANDS, main


@pytest.fixture
def script(capsys):
    def write(shell: str) -> str:
        assert main(["completion", shell]) == 0
        return capsys.readouterr().out

    return write


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["tandem", ""], {*COMMANDS, "--help", "--version"}),
        (["tandem", "se"], {"serve", "service"}),
        (["tandem", "serve", "--po"], {"--port"}),
        (["tandem", "serve", "--log", ""], {"text", "json"}),
        (["tandem", "serve", "--log", "j"], {"json"}),
        (["tandem", "check", "--li"], {"--live"}),
        (["tandem", "check", "--config", "con"], {"config with spaces.yaml"}),
        (["tandem", "completion", "f"], {"fish"}),
        (["tandem", "serve", "--port", ""], set()),
        (["tandem", "jobs", "wa"], {"watch"}),
        (["tandem", "delegate", "--tier", ""], {"fast", "deep"}),
        (["tandem", "delegate", "--file", "con"], {"config with spaces.yaml"}),
    ],
)
def test_bash_completes_commands_options_and_values(tmp_path, script, words, offered):
    (tmp_path / "config with spaces.yaml").write_text("")
    quoted = " ".join(f"'{word}'" for word in words)
    lines = f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _tandem; printf '%s\\n' \"${{COMPREPLY[@]}}\""

    done = subprocess.run(
        ["bash", "-c", f"{script('bash')}\n{lines}"], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert done.stderr == ""
    assert set(done.stdout.split("\n")) - {""} == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_its_options_are_in_every_script(script, shell):
    text = script(shell)

    assert all(name in text for name in COMMANDS)
    assert "SUPPRESS" not in text
    assert ("-l may-force" if shell == "fish" else "--may-force") in text


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_shell_that_is_here_takes_its_script(script, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")

    subprocess.run([shell, "-n"], input=script(shell), text=True, check=True)
