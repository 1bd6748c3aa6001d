"""The line of a path in a watch file."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.watch.lines import lines

YAML = b"""\
# a comment
actions: [email, metric]
defaults: &defaults
  severity: info
  for_steps: 0
rules:
  - VanishingGradient
  - rule: Overfit
    name: mine
    <<: *defaults
    parameters:
      # another
      patience: many
    actions:
      - stop
      - &mail emial
  - {rule: ExplodingTensor,
     actions: [*mail]}
notify:
  repeat_interval: 0
  repeat_interval: 1m
silences:
  -
    author: me
2: two
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 2),
        (("actions", 1), 2),
        (("rules",), 6),
        (("rules", 0), 7),
        (("rules", 0, "rule"), 7),  # the name alone stands there
        (("rules", 1), 8),
        (("rules", 1, "name"), 9),
        (("rules", 1, "for_steps"), 5),  # merged
        (("rules", 1, "parameters"), 11),
        (("rules", 1, "parameters", "patience"), 13),
        (("rules", 1, "parameters", "no such"), 11),
        (("rules", 1, "actions", 0), 15),
        (("rules", 1, "actions", 1), 16),
        (("rules", 2, "rule"), 17),
        (("rules", 2, "actions", 0), 16),  # an alias: where it is defined
        (("rules", 9), 6),
        (("rules", "x"), 6),
        (("notify", "repeat_interval"), 21),  # the last of the two counts
        (("silences", 0, "until"), 24),
        (("2",), 25),
        (("nowhere", 3), 2),
    ],
)
def test_yaml(path, line):
    assert lines(YAML, [path], yaml=True) == [line]


JSON = b"""{
\t"actions":["email",\t"stop:now"],
\t"rules": [
\t\t"Overfit",
\t\t{"rule": "a\\/b\\t\\ud83d\\ude00",
\t\t "for_steps": 0}
\t]
}"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 1),
        (("actions", 1), 2),
        (("rules", 0), 4),
        (("rules", 1, "rule"), 5),
        (("rules", 1, "for_steps"), 6),
    ],
)
def test_json_with_tabs(path, line):
    assert lines(JSON, [path]) == [line]


AMAZONS = b"""[
 {"RuleConfigurationName": "a",
  "RuleParameters": {
   "rule_to_invoke": "Overfit",
   "patience": "5",
   "action_json": "[]"}},
 {"RuleConfigurationName": "b"}
]"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("rules", 0), 2),
        (("rules", 0, "name"), 2),
        (("rules", 0, "rule"), 4),
        (("rules", 0, "parameters", "patience"), 5),
        (("rules", 0, "actions", 3), 6),
        (("rules", 0, "for_steps"), 2),
        (("rules", 1, "actions", 0), 7),
        (("rules",), 1),
    ],
)
def test_amazons_form(path, line):
    assert lines(AMAZONS, [path]) == [line]
    assert lines(AMAZONS, [path], yaml=True) == [line]
    wrapped = b'{"DebugRuleConfigurations":\n' + AMAZONS + b"}"
    deeper = line + 1 if len(path) > 1 else 1
    assert lines(wrapped, [path]) == [deeper]


@pytest.mark.parametrize(
    ("data", "yaml", "line"),
    [
        (b"rules:\n  - [a\n", True, 3),
        (b"a: 1\n\tb: 2\n", True, 2),
        (b"a: 1\n---\nb: 2\n", True, 2),
        (b'a: 1\nb: "\\UFFFFFFFF"\n', True, None),
        (b"\xff\xfe\xff", True, None),
        (b"", True, None),
        (b"[" * 100_000, True, None),
        (b'{\n"a": 1,\n}', False, 3),
        (b"", False, 1),
        (b'{"a": "\xff"}', False, None),
        (b"[" * 100_000, False, None),
        (b"\xef\xbb\xbf{}", False, 1),
    ],
)
def test_what_cannot_be_read(data, yaml, line):
    assert lines(data, [(), ("rules", 0)], yaml=yaml) == [line, line]


def test_without_pyyaml(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    assert lines(b'{\n"a": 1}', [("a",)]) == [None]
    assert lines(b'{\n"a": 1,}', [("a",)]) == [2]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=20,
)
PATHS = st.lists(st.text(max_size=9) | st.integers(0, 5), max_size=4).map(tuple)


@given(VALUES, st.lists(PATHS, max_size=3), st.sampled_from([None, 1, "\t"]))
def test_any_json(value, paths, indent):
    data = json.dumps(value, indent=indent).encode()
    found = lines(data, paths)
    assert len(found) == len(paths)
    assert all(line is None or 1 <= line <= data.count(b"\n") + 1 for line in found)


@given(st.lists(st.sampled_from([b"a", b": ", b"- ", b"\n", b"  ", b"&x ", b"*x", b"{", b"<<"])))
def test_any_yaml(parts):
    data = b"".join(parts)
    (line,) = lines(data, [("a", "a", 0)], yaml=True)
    assert line is None or 1 <= line <= data.count(b"\n") + 1
