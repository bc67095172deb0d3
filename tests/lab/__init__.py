"""The maintainer's lab: fits the shipped weights and studies them. `python -m tests.lab --help`."""
