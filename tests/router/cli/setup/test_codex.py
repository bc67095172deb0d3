"""Asking the installed Codex for its models."""

import json
import os

import pytest

from router.cli.setup.codex import ask_codex


@pytest.fixture
def install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def write(script: str) -> None:
        (tmp_path / "codex-test").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "codex-test").chmod(0o755)

    return write


def test_the_catalogue_that_ships_with_it_is_read(install):
    install(f"[ \"$*\" = 'debug models --bundled' ] && echo '{json.dumps({'models': [{'slug': 'gpt-9'}]})}'")

    assert ask_codex("codex-test") == [{"slug": "gpt-9"}]


def test_one_without_the_flag_is_asked_without_it_and_what_is_ours_is_left_out(install):
    told = json.dumps({"models": [{"slug": "auto"}, {"slug": "gpt-9"}]})
    install(f"[ \"$*\" = 'debug models' ] || exit 2; echo '{told}'")

    assert ask_codex("codex-test") == [{"slug": "gpt-9"}]


@pytest.mark.parametrize("script", ["exit 1", "echo nonsense", "echo '{}'", "echo '{\"models\": [1]}'"])
def test_one_that_prints_none_is_no_error(install, script):
    install(script)

    assert ask_codex("codex-test") == []


def test_one_that_is_not_installed_is_no_error():
    assert ask_codex("codex-that-is-not-here") == []
