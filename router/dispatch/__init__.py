"""`Decision` → attempts → adapter → sink: who is tried, what is relayed, and what was measured on the way."""
