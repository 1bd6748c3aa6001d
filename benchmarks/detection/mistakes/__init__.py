"""Mistakes, each a function that changes a training; ``sound`` has the variants without harm."""
