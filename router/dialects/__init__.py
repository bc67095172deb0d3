"""Dialects, without I/O: bytes on one side, `RequestView` and stream ends on the other."""
