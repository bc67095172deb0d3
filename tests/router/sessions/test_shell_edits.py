"""Edits that are made in a shell are seen, with their files; looking around is not taken for one."""

import json

import pytest

from router.sessions.shell_edits import find_shell_edit, is_shell
from tests.tools.work import cost_ratio

PATCH = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** Add File: b.py\n+z\n*** End Patch"
DIFF = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"


def test_a_command_that_writes_a_file_is_an_edit_of_it(subtests):
    for command, files in [
        ("sed -i 's/a/b/' src/x.py", ("src/x.py",)),
        ('cd /repo && sed -E -i "s|x|y|g" a/b.txt; ls', ("a/b.txt",)),
        ("sed -i.bak -e 's/a;b/c/' -e '3d' src/x.py && pytest", ("src/x.py",)),
        ("sed --in-place 's/a/b/' q", ("q",)),
        ("find . -name '*.py' -exec sed -i 's/a/b/' {} +", ("",)),
        ("perl -pi -e 's/a/b/' x.pl", ("x.pl",)),
        ("perl -0pi -e 's/a\\nb/c/' x.pl", ("x.pl",)),
        ("cat > f.py <<'EOF'\nprint(1 > 0)\nEOF", ("f.py",)),
        ("cat <<EOF >> f.py\nx\nEOF", ("f.py",)),
        ("mkdir -p a && cat > a/f.py <<'EOF'\nx\nEOF\ncat > a/g.py <<'EOF'\ny\nEOF", ("a/f.py", "a/g.py")),
        ("echo 'a > b' > f", ("f",)),
        ("printf '%s' x | tee -a conf.yaml", ("conf.yaml",)),
        (f"apply_patch <<'EOF'\n{PATCH}\nEOF", ("src/a.py", "b.py")),
        (f"git apply - <<EOF\n{DIFF}EOF", ("x.py",)),
        ("git apply fix.diff", ("",)),
        ("patch -p1 < fix.diff", ("",)),
        ("python - <<'EOF'\np = Path('a.py')\np.write_text(p.read_text())\nEOF", ("",)),
        ("python3 -c \"open('a.py', 'w').write('x')\"", ("a.py",)),
        ("node -e \"require('fs').writeFileSync('a.js', x)\"", ("a.js",)),
    ]:
        with subtests.test(command=command, files=files):
            assert find_shell_edit(command) == files


def test_looking_around_and_moving_files_is_no_edit(subtests):
    for command in [
        "ls -la",
        "grep -i foo bar",
        "sed -n '1,20p' f",
        "sed 's/-i/x/' f",
        "pytest -x > log.txt 2>&1",
        "git diff > p.diff",
        "cat a > /dev/null",
        'echo "x" > /tmp/scratch.py',
        "echo 'a -> b'",
        "echo failed >&2",
        "git apply --check x.diff",
        "python -c 'print(open(\"a\").read())'",
        "mv a b && cp b c && rm -f c",
        "npm install patch-package",
    ]:
        with subtests.test(command=command):
            assert find_shell_edit(command) is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "sed -i 's/a/b/' x.py"},
        json.dumps({"cmd": "sed -i 's/a/b/' x.py", "workdir": "/repo"}),
        json.dumps({"command": ["bash", "-lc", "sed -i 's/a/b/' x.py"]}),
        {"type": "exec", "command": ["sed", "-i", "s/a b/c/", "x.py"]},
        {"commands": ["cd src", "sed -i 's/a/b/' x.py"], "timeout_ms": None},
        ["bash", "-lc", "sed -i 's/a/b/' x.py"],
        "sed -i 's/a/b/' x.py",
    ],
    ids=["object", "JSON text", "argv in JSON text", "argv in an object", "several commands", "argv", "free text"],
)
def test_a_command_is_found_in_the_arguments_of_every_kind_of_client(arguments):
    assert find_shell_edit(arguments) == ("x.py",)


@pytest.mark.parametrize("arguments", [None, {}, {"command": 3}, "{broken > x", [1, 2], {"command": [None]}])
def test_arguments_that_hold_no_command_are_no_edit(arguments):
    assert find_shell_edit(arguments) is None


@pytest.mark.parametrize(
    "name",
    ["Bash", "bash", "shell", "exec_command", "container.exec", "local_shell_call", "run_shell_command", "execute_command",
     "run_in_terminal"],
)  # fmt: skip
def test_tools_that_run_commands_are_known_by_their_names(name):
    assert is_shell(name)


@pytest.mark.parametrize("name", ["Read", "Edit", "apply_patch", "view_image", "Task"])
def test_other_tools_run_no_commands(name):
    assert not is_shell(name)


@pytest.mark.parametrize(
    ("before", "part", "after"),
    [("cat ", "<<abc ", "|>"), ("", "sed ", "-i"), ("", "\n", ">"), ("", "cat '", ">"), ("", "open(", "python")],
    ids=["here-documents", "editors", "empty lines", "open quotes", "scripts"],
)
def test_a_command_of_eight_times_the_length_takes_about_eight_times_the_work(before, part, after):
    def read(times):
        return lambda: find_shell_edit(before + part * (times // len(part)) + after)

    assert cost_ratio(read(19_200), read(2_400)) < 24
