"""Folders for their owner alone. Imports nothing heavy, since the status line runs all the time."""

from pathlib import Path


def make_folders(folder: Path) -> None:
    """Create a folder and those above it that are missing. Existing ones stay as they are. Raises `OSError`."""
    for path in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        path.mkdir(mode=0o700, exist_ok=True)
