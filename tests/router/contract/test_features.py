"""Places as the ledger keeps them."""
