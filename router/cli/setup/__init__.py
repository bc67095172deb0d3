"""Shared by `init`, `check` and `connect`: what is here, whether it answers, and questions."""
