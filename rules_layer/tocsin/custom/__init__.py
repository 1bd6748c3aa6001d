"""Rules that users write: files with rules, and rules in the style of smdebug."""

from __future__ import annotations

from tocsin.custom.files import load_files, load_installed
from tocsin.custom.invoke import invoke_rule
from tocsin.custom.native import native
from tocsin.custom.required import RequiredTensors
from tocsin.custom.rule import Rule
from tocsin.custom.smdebug_modules import smdebug_names
from tocsin.rules import register_style

__all__ = [
    "RequiredTensors",
    "Rule",
    "invoke_rule",
    "load_files",
    "load_installed",
    "native",
    "smdebug_names",
]

register_style(Rule, native)
