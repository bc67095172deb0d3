"""Opinions → odds → estimate → `Decision`. Pure: no clock, no I/O."""
