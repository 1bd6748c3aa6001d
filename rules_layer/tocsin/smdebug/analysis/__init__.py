"""Helpers of notebooks."""
