"""Names and numbers that several constructs, or users, rely on."""

from __future__ import annotations

import os
from pathlib import Path

import tocsin

PACKAGE = Path(__file__).resolve().parent
TOCSIN = Path(tocsin.__file__).resolve().parent

_CHECKOUT = PACKAGE.parents[1]
_IS_CHECKOUT = (_CHECKOUT / "functions").is_dir()
# The wheel has the functions inside of this package.
FUNCTIONS = (_CHECKOUT if _IS_CHECKOUT else PACKAGE) / "functions"
CACHE = (
    _CHECKOUT / ".cache"
    if _IS_CHECKOUT
    else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tocsin"
)

PYTHON = "3.13"
CUSTOM_RULES = "tocsin_custom_rules"

# A message is tried five times. Its visibility timeout is six times the function's, as AWS advises.
TRIES = 5
VISIBILITY_FACTOR = 6
