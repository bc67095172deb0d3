"""Limits: quotas of targets, rates and budgets of callers, and second attempts."""
