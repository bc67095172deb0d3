"""Opinions → odds → estimate → `Decision`. Pure: no clock, no I/O, the same answer for the same facts."""
