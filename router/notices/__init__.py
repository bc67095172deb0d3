"""Current troubles, in one line each, and the webhook that reports them."""
