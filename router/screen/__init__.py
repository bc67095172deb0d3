"""What a person looks at: a line for each turn, live on `serve`'s terminal and out of the ledger."""
