"""Losses compared with those of other labels, and of a constant guess."""
