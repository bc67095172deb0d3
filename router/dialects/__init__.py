"""Dialects without I/O: chat, responses and messages as bytes on one side, `RequestView` and stream ends on the other."""
