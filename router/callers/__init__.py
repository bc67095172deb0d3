"""What callers with a key may use: their rates and budgets, asked before a target is called."""
