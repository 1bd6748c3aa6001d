"""The terminal. Each command's work is imported when the command runs."""

from tocsin.cli._app import app

__all__ = ["app"]
