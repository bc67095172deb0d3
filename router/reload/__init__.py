"""Changing the config of a running router: read and check everything, then swap the plan, or change nothing."""
