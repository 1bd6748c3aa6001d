"""Checks that users write."""
