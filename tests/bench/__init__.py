"""Figures with a floor: Tandem against direct calls or another version of itself, interleaved, as ratios. `make bench` runs it."""
