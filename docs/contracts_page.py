"""The page of the contracts, ``docs/contracts.md``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tocsin.contracts import CONTRACTS, FAMILIES, FORMER, RETIRED, Contract

_HEAD = """\
# Contracts

A contract is a condition that holds for every training, whatever the model. Tocsin's hooks check
the calls of a training script, and [BrokenContract](rules/BrokenContract.md) reports each line that
breaks one. This page is generated from `rules_layer/tocsin/contracts` (`make docs`).

To switch a contract off, exclude its id in the watch file, after `contract/`:

```yaml {.watch}
extend_profile: true        # the other rules of the profile run, too
rules:
  - rule: BrokenContract
    exclude: ["contract/constant_input/", "contract/labels_equal_inputs/.*old_data.py"]
```

A misspelt id is an error, and `tocsin lint` suggests the nearest one. To add contracts of your own
to a PyTorch training, write [custom checks](custom-checks.md).
"""

_FORMER = """\
## Former ids

Runs of earlier versions have the former ids. They are reported with today's texts, and a watch file
may use either id.

| former id | id |
|---|---|
"""


_RETIRED = """\
## Retired

Only earlier versions checked these contracts. Their runs are still reported with these texts.

"""


def contracts_page() -> str:
    """The page of all contracts, by family, with former ids and retired contracts."""
    former = "\n".join(f"| `{old}` | `{new}` |" for old, new in FORMER.items())
    parts = [
        _HEAD.rstrip(),
        *(
            f"## {name}\n\n{_table([each for each in family if each.id not in RETIRED])}"
            for name, family in FAMILIES.items()
        ),
        f"{_FORMER}{former}",
        f"{_RETIRED}{_table([CONTRACTS[each] for each in sorted(RETIRED)])}",
    ]
    return "\n\n".join(parts) + "\n"


def _table(family: Sequence[Contract]) -> str:
    rows = (
        f"| `{each.id}` | {' | '.join(map(_cell, (each.says, each.cause, each.advice)))} "
        f"| {each.severity} |"
        for each in family
    )
    head = "| id | what happened | why it matters | what to do | severity |"
    return "\n".join([head, "|---|---|---|---|---|", *rows])


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")
