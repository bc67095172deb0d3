"""What has to be known of a repository before an agent works in it."""

import pytest

from router.cli.agent.worktree import GitRefused, find_repository, without_git
from tests.tools.coding_agents import git, make_repository


def test_a_folder_is_found_in_its_repository_at_its_newest_commit(tmp_path):
    root = make_repository(tmp_path / "repository")
    (root / "new.txt").write_text("x")

    found = find_repository(root / "inside")

    assert (found.root, found.inside, found.uncommitted) == (root, "inside", 1)
    assert found.commit == git(root, "rev-parse", "HEAD")


def test_a_folder_without_a_repository_is_refused(tmp_path):
    with pytest.raises(GitRefused, match="not a git repository"):
        find_repository(tmp_path)


def test_a_repository_without_files_of_its_own_is_refused(tmp_path):
    git(tmp_path, "init", "--quiet", "--bare")

    with pytest.raises(GitRefused, match="must be run in a work tree"):
        find_repository(tmp_path)


def test_a_repository_without_a_commit_is_refused(tmp_path):
    git(tmp_path, "init", "--quiet")

    with pytest.raises(GitRefused, match="has no commit yet"):
        find_repository(tmp_path)


def test_a_missing_git_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(GitRefused, match="git is not installed"):
        find_repository(tmp_path)


def test_the_repository_of_a_hook_does_not_take_the_place_of_the_folders_own(tmp_path, monkeypatch):
    hooked, root = make_repository(tmp_path / "hooked"), make_repository(tmp_path / "repository")
    monkeypatch.setenv("GIT_DIR", str(hooked / ".git"))

    assert find_repository(root).root == root
    assert without_git({"GIT_DIR": "x", "GIT_INDEX_FILE": "y", "GIT_AUTHOR_NAME": "Ada"}) == {"GIT_AUTHOR_NAME": "Ada"}
