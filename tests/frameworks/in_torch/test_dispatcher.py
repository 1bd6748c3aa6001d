"""Events reach the checks that take them, by the types of their methods' arguments."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import tocsin_hooks.torch
from tocsin.contracts import CONTRACTS, SEVERAL_TIMES, SIGN_CONTRACTS, UNLESS
from tocsin_hooks.torch import events
from tocsin_hooks.torch.dispatcher import Dispatcher

FOLDER = Path(tocsin_hooks.torch.__file__).parent


class Takes:
    def __init__(self) -> None:
        self.seen: list[object] = []

    def begins(self, event: events.PassBegins) -> None:
        self.seen.append(event)

    def ends(self, event: events.PassEnds) -> None:
        self.seen.append(event)

    def asked(self, number: int) -> int:
        return number


class Fails(Takes):
    def begins(self, event: events.PassBegins) -> None:
        super().begins(event)
        raise ValueError("no")


def test_one_that_raises_is_switched_off_and_named_once() -> None:
    said: list[str] = []
    found = Dispatcher(lambda what, error: said.append(f"{what}: {error}"))
    fails, takes = Fails(), Takes()
    found.add(fails, takes)
    found.tell(events.PassBegins)
    found.tell(events.PassBegins)
    assert said == ["check Fails is switched off: no"]
    assert (len(fails.seen), len(takes.seen)) == (1, 2)


def test_an_event_that_nobody_takes_is_not_made() -> None:
    made: list[object] = []

    def make() -> object:
        made.append(None)
        return events.PassBegins()

    found = Dispatcher(lambda *_: None)
    found.tell(make)
    assert made == []


def test_only_ends_reach_those_that_no_rule_wants() -> None:
    takes, own = Takes(), Takes()
    found = Dispatcher(lambda *_: None, are_wanted=lambda: False)
    found.add(takes)
    found.subscribe(events.PassBegins, own, own.begins)
    found.tell(events.PassBegins)
    found.tell(events.PassEnds)
    assert [type(each) for each in takes.seen] == [events.PassEnds]
    assert [type(each) for each in own.seen] == [events.PassBegins]


def test_each_contract_stands_in_one_file() -> None:
    """But for one that is found by two means: by gradients of tokens, and by the shapes that layers
    without ``batch_first`` are given."""
    files = defaultdict[str, set[str]](set)
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and node.value in CONTRACTS:
                files[str(node.value)].add(path.name)
    assert {key: found for key, found in files.items() if len(found) > 1} == {
        "samples_mixed": {"batch_axis.py", "token_probe.py"}
    }


def test_relations_are_of_contracts() -> None:
    named = {
        *SEVERAL_TIMES,
        *SIGN_CONTRACTS,
        *UNLESS,
        *(each for one in UNLESS.values() for each in one),
    }
    assert named <= {*CONTRACTS}


def test_the_names_of_events_are_those_of_the_methods_that_take_them() -> None:
    """So that who reads an event finds who takes it."""
    for path in (FOLDER / "contracts").glob("*.py"):
        for name, event in re.findall(
            r"def ([a-z]\w*)\(self, \w+: events\.(\w+)", path.read_text()
        ):
            assert name == re.sub(r"(?<!^)([A-Z])", r"_\1", event).lower(), path.name
