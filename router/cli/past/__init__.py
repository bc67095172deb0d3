"""What the commands that look back share: which ledger or logs, since when, and a decision as text."""
