"""The names of a model's tensors, before training: ``python -m tocsin_hooks.names``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

import msgspec
from tocsin.model import Role
from tocsin.rules import TRAINING
from tocsin.watch import PatternMatcher, Refused, Watch, Watched, read_watch, resolve

from tocsin_hooks.factory import NoModel, made_by
from tocsin_hooks.plan import Saved
from tocsin_hooks.selection import CaptureSelection
from tocsin_hooks.settings import settings
from tocsin_hooks.wishes import wanting

_EXAMPLE = """\
example:
  python -m tocsin_hooks.names train.py:build_model --watch watch.yaml
  python -m tocsin_hooks.names torchvision.models:resnet18 --json
"""
_FROM_THE_LOOP = frozenset(
    {Role.LOSS, Role.METRIC, Role.LABEL, Role.PREDICTION, Role.LEARNING_RATE}
)


@dataclass(frozen=True)
class Listed:
    """A tensor that the hook would capture, and the rules that read it."""

    name: str
    collections: tuple[str, ...]
    role: str | None
    kind: str | None
    rules: tuple[str, ...]


@dataclass(frozen=True)
class Blind:
    """A rule that reads none of the listed tensors, with the tensors that it needs.

    ``loop``: it looks for losses, labels and the like, which the model does not know: they show
    only when the training loop runs.
    """

    rule: str
    looks_for: str
    loop: bool


@dataclass(frozen=True)
class Names:
    """The tensors of a model and their rules, as the command prints them."""

    model: str
    tensors: tuple[Listed, ...]
    without_tensors: tuple[Blind, ...]
    refused: tuple[Refused, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        watch = read_watch(options.watch) if options.watch else None
        names = names_of(made_by(options.model), watch)
    except (NoModel, ValueError, OSError) as error:
        print(f"tocsin_hooks.names: {' '.join(str(error).split())}", file=sys.stderr)  # noqa: T201 - a command
        return 2
    if options.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(names), indent=2).decode() + "\n")
    else:
        _print(names, sys.stdout)
    return 0


def names_of(model: object, watch: Watch | None = None) -> Names:
    """Return the tensors of a PyTorch model that a hook with this watch file captures.

    Raises ValueError for a pattern of the watch file that cannot be used.
    """
    from tocsin_hooks.torch import tensor_names

    selection = CaptureSelection(settings(watch, None))
    rules, refused = resolve(watch or Watch(), TRAINING)
    saved = [
        Saved(name, selection.settings.collections_of(name, collections), role, kind)
        for name, collections, role, kind in tensor_names(model)
        if selection.wants(name, collections, role, kind)
    ]
    matcher = selection.settings.matcher
    listed = [_listed(tensor, rules, matcher) for tensor in saved]
    reading = {rule for each in listed for rule in each.rules}
    return Names(
        type(model).__name__,
        tuple(listed),
        tuple(_blind(rule) for rule in rules if rule.reads.tensors and rule.name not in reading),
        refused,
    )


def _listed(saved: Saved, rules: Sequence[Watched], matcher: PatternMatcher) -> Listed:
    role, kind = saved.place
    readers = tuple(rule.name for rule in rules if any(wanting((rule,), saved, matcher)))
    return Listed(saved.name, saved.collections, role, kind, readers)


def _blind(rule: Watched) -> Blind:
    reads = rule.reads.tensors.values()
    return Blind(
        rule.name,
        ", ".join(read.describe() for read in reads),
        loop=any(not _FROM_THE_LOOP.isdisjoint(read.roles) for read in reads),
    )


def _print(names: Names, out: TextIO) -> None:
    rows = [("NAME", "COLLECTIONS", "ROLE", "KIND", "RULES")]
    rows += [
        (
            tensor.name,
            " ".join(tensor.collections),
            tensor.role or "-",
            tensor.kind or "-",
            " ".join(tensor.rules) or "-",
        )
        for tensor in names.tensors
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        out.write("  ".join(cells).rstrip() + "\n")
    out.write(f"\n{len(names.tensors)} tensors of {names.model}\n")
    nothing = [f"{each.rule}: {each.looks_for}" for each in names.without_tensors if not each.loop]
    _print_list("these rules would have nothing to judge", nothing, out)
    loop = [f"{each.rule}: {each.looks_for}" for each in names.without_tensors if each.loop]
    _print_list("these rules need data that only the training loop provides", loop, out)
    refused = [f"{each.name}: {each.reason}" for each in names.refused]
    _print_list("these rules cannot be evaluated", refused, out)


def _print_list(what: str, lines: Sequence[str], out: TextIO) -> None:
    if lines:
        out.write(f"\n{what}:\n" + "".join(f"  {line}\n" for line in lines))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tocsin_hooks.names",
        description="Show the tensors of a PyTorch model that the hook captures, and who reads "
        "them. Builds the model, but neither calls nor trains it.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "model",
        metavar="module:factory",
        help="what gives the model when called without arguments, or a model; also file.py:factory",
    )
    parser.add_argument("--watch", metavar="FILE", help="a watch file; default: all rules")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
