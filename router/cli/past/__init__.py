"""Shared by commands that look back: ledger or logs, time span, and a decision as text."""
