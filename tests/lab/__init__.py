"""The maintainer's lab: fits the shipped weights. `python -m tests.lab --help`."""
