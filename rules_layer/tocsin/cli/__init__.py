"""The terminal. Each command's work is imported when the command runs."""

from tocsin.cli.main import app

__all__ = ["app"]
