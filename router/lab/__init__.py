"""Looking back: replay a history, tune to it. Reads what is on this machine and sends nothing anywhere."""
