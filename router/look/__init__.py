"""Deep's look at what fast did, before the answer ends."""
