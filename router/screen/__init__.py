"""Terminal output: a line for each turn, live or from the ledger."""
