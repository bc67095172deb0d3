"""What a person looks at: a line for each turn, live on `serve`'s terminal or from the ledger."""
