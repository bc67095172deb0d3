"""What `init`, `check` and `connect` share: what is here, whether it answers, and asking a person."""
