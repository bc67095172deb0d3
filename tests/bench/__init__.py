"""Figures with a floor: Tandem against direct calls, interleaved, as ratios. `make bench` runs it."""
