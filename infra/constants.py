"""The names and numbers that several constructs, or outsiders, rely on."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

STACK = "Tocsin"
BUS = "tocsin"
PYTHON = "3.13"
CUSTOM_RULES = "tocsin_custom_rules"

# A key in the capture bucket beside those of tocsin.tensors, and a prefix in the state bucket.
PACE = "pace.json"
CHECKPOINTS = "checkpoints/"

# Where the deployment's owner puts a webhook's address and secret, by its name.
WEBHOOKS = "/tocsin/webhooks/"

# The table's index of what is due, and the tag that gives a training role its prefix.
DUE_INDEX = "due"
PREFIX_TAG = "tocsin-prefix"

# A message is tried five times. Lambda wants six times its timeout before it is seen again.
TRIES = 5
VISIBILITY_FACTOR = 6
