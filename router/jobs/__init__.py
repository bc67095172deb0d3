"""Background work: requests that are accepted now, served later or elsewhere, and read from a log."""
