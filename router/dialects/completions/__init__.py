"""The old text endpoint, for fill-in-the-middle. Its streams end, and its usage reads, as in chat."""
