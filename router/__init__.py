"""Tandem: one OpenAI-compatible endpoint, a fast and a deep tier behind it. Read `house.py` first."""
