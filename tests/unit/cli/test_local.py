"""``tocsin demo`` and ``tocsin local``, whose work is another package's."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

SCENARIOS = {"diverging": "the loss explodes", "healthy": "nothing goes wrong"}
UP = {
    "endpoint": "http://127.0.0.1:4566",
    "bucket": "capture",
    "environment": {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566", "AWS_REGION": "eu-west-1"},
}


class LocalError(RuntimeError):
    """As ``local.error`` has it."""


@pytest.fixture
def local(monkeypatch):
    """A package ``local`` that does nothing but remember what it was asked."""
    asked = []

    def run(scenario, console, *, as_json):
        asked.append((scenario, as_json))
        console.print("what happens")
        return {"scenario": scenario, "latency_ms": float("nan")}

    def module(name, **content):
        made = ModuleType(name)
        made.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    module("local", __path__=[])
    module("local.error", LocalError=LocalError)
    module("local.demo", SCENARIOS=SCENARIOS, run=run)
    module(
        "local.background",
        up=lambda *context: asked.extend(context) or UP,
        down=lambda: True,
        resources=lambda: UP,
        log_lines=lambda: ["ready"],
    )
    module(
        "local.resources",
        mails=lambda: [{"subject": "ExplodingTensor", "body": "it fired"}],
        submit=lambda script, arguments: {"job": script, "run": " ".join(arguments)},
    )
    return asked


def test_the_demo(tocsin, local):
    said = tocsin("demo")
    assert (said.code, said.out, said.err) == (0, "what happens\n", "")
    said = tocsin("demo", "--scenario", "healthy", "--json")
    assert (said.code, said.err) == (0, "what happens\n")
    assert said.json == {"scenario": "healthy", "latency_ms": "NaN"}
    assert local == [("diverging", False), ("healthy", True)]


def test_a_scenario_that_there_is_not(tocsin, local):
    said = tocsin("demo", "--scenario", "x")
    assert said.complaint == "unknown scenario 'x': there are diverging, healthy"


def test_up_and_down(tocsin, local, monkeypatch):
    assert tocsin("local", "up", "--json").json == UP
    people = tocsin("local", "up").out
    assert "export AWS_ENDPOINT_URL=http://127.0.0.1:4566\n" in people
    assert "bucket    capture" in people
    assert tocsin("local", "down", "--json").json == {"stopped": True}
    assert tocsin("local", "down").out == "stopped\n"
    monkeypatch.setattr(sys.modules["local.background"], "down", lambda: False)
    assert tocsin("local", "down").out == "it was not running\n"


def test_what_goes_wrong_there_is_one_line(tocsin, local, monkeypatch):
    def fails():
        raise LocalError("the embedded AWS does not start: no room")

    monkeypatch.setattr(sys.modules["local.background"], "up", fails)
    assert tocsin("local", "up").complaint == "the embedded AWS does not start: no room"


@pytest.mark.parametrize(
    ("command", "missing"),
    [("demo", "local"), ("demo", "local.demo"), ("local up", "local"), ("local down", "local")],
)
def test_outside_a_checkout(tocsin, local, monkeypatch, command, missing):
    for name in [name for name in sys.modules if name.partition(".")[0] == "local"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    name = command.split()[0]
    assert (
        tocsin(*command.split()).complaint == f"tocsin {name} runs from a checkout of the project"
    )


def test_a_checkout_that_lacks_something_else(tocsin, local, monkeypatch):
    def lacking(name):
        raise ModuleNotFoundError("No module named 'aws_cdk'", name="aws_cdk")

    monkeypatch.setattr("tocsin.cli.commands.checkout.import_module", lacking)
    assert tocsin("demo").complaint == "No module named 'aws_cdk'"


def test_up_takes_the_options_of_a_deployment(tocsin, local):
    given = ["-c", "emails=a@example.com,b@example.com", "-c", "watchFile=w.yaml"]
    assert tocsin("local", "up", *given).code == 0
    assert local == [{"emails": "a@example.com,b@example.com", "watchFile": "w.yaml"}]
    assert tocsin("local", "up", "-c", "emails").complaint.startswith("-c emails: write it as")


def test_what_is_done_with_it(tocsin, local):
    assert tocsin("local", "env").out == (
        "export AWS_ENDPOINT_URL=http://127.0.0.1:4566\nexport AWS_REGION=eu-west-1\n"
    )
    assert tocsin("local", "mail").out == "Subject: ExplodingTensor\nit fired\n\n"
    assert tocsin("local", "logs").out == "ready\n"
    said = tocsin("local", "submit", "train.py", "--epochs", "3", "--json")
    assert said.json == {"job": "train.py", "run": "--epochs 3"}
