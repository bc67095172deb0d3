"""The ledger entry of a finished request, and its explanation."""
