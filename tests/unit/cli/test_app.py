"""The commands as they are typed: help, and what is refused."""

from __future__ import annotations

from importlib.metadata import version

import pytest

COMMANDS = ["check", "watch", "profile", "trace", "report", "tensors", "rules", "lint", "convert"]
COMMANDS += ["status", "replay", "doctor", "mcp", "demo", "silence", "local"]


SUBCOMMANDS = ["silence add", "silence list", "silence expire"]
SUBCOMMANDS += ["local up", "local down", "local env", "local mail", "local submit", "local logs"]


@pytest.mark.parametrize("command", [*COMMANDS, *SUBCOMMANDS])
def test_help_has_an_example(tocsin, command):
    said = tocsin(*command.split(), "--help")
    assert (said.code, said.err) == (0, "")
    _, found, example = said.out.partition("Example")
    assert found
    assert f"tocsin {command}" in example
    if command not in ("local", "mcp", "silence", "watch"):  # for machines: check --follow --json
        assert "--json" in said.out


def test_help_lists_what_there_is_and_no_more(tocsin):
    said = tocsin("--help")
    listed = said.out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == COMMANDS
    assert not [line for line in listed if line.endswith("...")]
    assert said == tocsin()


def test_version(tocsin):
    assert tocsin("--version").out == f"{version('tocsin')}\n"


@pytest.mark.parametrize("command", [[], ["check"], ["silence"], ["silence", "add"], ["local"]])
def test_help_is_short_to_type(tocsin, command):
    assert tocsin(*command, "-h") == tocsin(*command, "--help")
    assert tocsin(*command, "-h").code == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["chek"], "No such command 'chek'. Did you mean 'check'? (try 'tocsin --help')"),
        (["--sideways"], "No such option: --sideways (try 'tocsin --help')"),
        (["check"], "Missing argument 'RUN' (try 'tocsin check --help')"),
        (["check", "a", "b"], "unexpected extra argument"),
        (
            ["check", "{run}", "--sideways"],
            "No such option: --sideways (try 'tocsin check --help')",
        ),
        (["check", "{run}", "--rule"], "Option '--rule' requires an argument"),
        (["check", "{run}", "--profile", "x"], "'x' is not one of 'recommended', 'sagemaker'"),
        (["check", ""], "RUN is empty"),
        (["check", "{tmp}/none"], "a training that fails before its first step leaves none"),
        (["check", "{tmp}/no\x1b[31m\nne"], r"{tmp}/no\x1b[31m ne: no such folder"),
        (["check", "{tmp}"], "{tmp} is not a run: it has neither index/ nor collections/"),
        (["check", "{run}/.."], "j1 is not a run"),
        (["check", "{run}/.."], "; did you mean {run}?"),
        (["check", "{run}/training_job_end.ts"], "neither a run"),
        (["check", "ftp://x/y"], "ftp://x/y is neither a folder nor s3://bucket/prefix"),
        (["check", "s3://"], "s3:// is not of the form s3://bucket/prefix"),
        (["check", "{run}", "--watch", "{tmp}/w.yaml"], "{tmp}/w.yaml: no such file or directory"),
        (
            ["check", "{run}", "--watch", "{tmp}"],
            "{tmp}: a folder, not a file: give a file, or /dev/stdin",
        ),
        (["check", "{run}", "--rule", "Vanishing"], "unknown rule 'Vanishing': did you mean"),
        (
            ["check", "{run}", "--rule", "VanishingGradient:treshold=1"],
            "--rule: VanishingGradient: unknown parameter 'treshold': did you mean threshold?",
        ),
        (
            ["check", "{run}", "--rule", "VanishingGradient:threshold"],
            "'threshold' is not in the form key=value",
        ),
        (
            ["check", "{run}", "--rule", "VanishingGradient", "--rule", "VanishingGradient"],
            "'VanishingGradient' is used 2 times",
        ),
        (["tensors"], "Missing argument 'RUN'"),
        (["tensors", "{tmp}/none", "--json"], "{tmp}/none: no such folder"),
        (["tensors", "{tmp}"], "{tmp} is not a run"),
        (["tensors", "{run}", "--regex", "("], "pattern '(' is not a regular expression"),
        (["tensors", "{run}", "--collection", "x"], "no collection 'x'; it has: gradients, losses"),
        (["rules", "Vanishing"], "unknown rule 'Vanishing': did you mean VanishingGradient?"),
        (["lint"], "Missing argument 'FILE'"),
        (["lint", "{tmp}/w.yaml", "--json"], "{tmp}/w.yaml: no such file or directory"),
        (["silence"], "Missing command (try 'tocsin silence --help')"),
        (["local"], "Missing command (try 'tocsin local --help')"),
        (["local", "sideways"], "No such command 'sideways'"),
    ],
)
def test_what_is_refused(tocsin, ill, tmp_path, arguments, complaint):
    places = {"run": str(ill), "tmp": str(tmp_path)}
    said = tocsin(*(argument.format_map(places) for argument in arguments))
    assert complaint.format_map(places) in said.complaint


def test_a_bug_is_one_line_too(tocsin, ill, monkeypatch):
    monkeypatch.setattr("tocsin.cli.check.check", lambda *_, **__: {}["gone"])
    complaint = tocsin("check", ill).complaint
    assert complaint.startswith("KeyError: 'gone' (in test_app.py, line ")
    assert "a bug in Tocsin" in complaint


def test_an_interrupt_is_no_finding(tocsin, ill, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tocsin.cli.check.check", interrupted)
    assert (tocsin("check", ill).code, tocsin("check", ill).out) == (130, "")
