from __future__ import annotations

import json
import os
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tocsin.model import Severity
from tocsin.watch import (
    BadWatch,
    Capture,
    CollectionConfig,
    Notify,
    RuleConfig,
    Silence,
    Watch,
    encode_watch,
    parse_watch,
    read_watch,
    resolve,
    to_watch,
)

from tests.irregular import IRREGULAR, in_time

FULL = """\
profile: recommended
severity: info
actions: [email, metric]
rules:
  - VanishingGradient
  - rule: LossNotDecreasing
    name: eval-loss-stalled
    parameters: {num_steps: 50, mode: EVAL}
    for_steps: 3
    start_step: 100
    end_step: 900
    every: 2
    grace: 30s
    resolve: 4
    mode: EVAL
    include: loss
    exclude: [aux, "^tmp"]
    severity: critical
    actions: [stop, "email:ml-oncall@example.com", "sms:+15551230000", metric]
    inhibits: [Overfit]
capture:
  save_interval: 10
  collections: {weights: {include_regex: "fc.*weight", reductions: "mean,l2_norm"}}
  save_interval_seconds: 30
notify: {group_wait: 20s, repeat_interval: 1h, send_resolved: false, summary: [email]}
silences:
  - until: 2026-12-01T08:00:00Z
    job: nightly-*
    rule: "*Loss*"
    severity: warning
    author: ann
    reason: known
  - {until: 2026-12-01 09:00:00+01:00}
custom_rules: my_rules/
dry_run: true
"""

FULL_WATCH = Watch(
    severity=Severity.INFO,
    rules=(
        RuleConfig("VanishingGradient"),
        RuleConfig(
            rule="LossNotDecreasing",
            name="eval-loss-stalled",
            parameters={"num_steps": 50, "mode": "EVAL"},
            for_steps=3,
            start_step=100,
            end_step=900,
            every=2,
            grace="30s",
            resolve=4,
            mode="EVAL",
            include="loss",
            exclude=("aux", "^tmp"),
            severity=Severity.CRITICAL,
            actions=("stop", "email:ml-oncall@example.com", "sms:+15551230000", "metric"),
            inhibits=("Overfit",),
        ),
    ),
    capture=Capture(
        10, 30.0, {"weights": CollectionConfig("fc.*weight", reductions="mean,l2_norm")}
    ),
    notify=Notify("20s", "1h", send_resolved=False, summary=("email",)),
    silences=(
        Silence(
            datetime(2026, 12, 1, 8, tzinfo=timezone.utc),
            "nightly-*",
            "*Loss*",
            Severity.WARNING,
            "ann",
            "known",
        ),
        Silence(datetime(2026, 12, 1, 8, tzinfo=timezone.utc)),
    ),
    custom_rules="my_rules/",
    dry_run=True,
)


def test_yaml() -> None:
    assert parse_watch(FULL.encode(), yaml=True) == FULL_WATCH


@pytest.mark.parametrize("watch", [Watch(), Watch(rules=()), FULL_WATCH])
def test_stored_as_json_and_read_again(watch: Watch) -> None:
    stored = encode_watch(watch)
    assert parse_watch(stored) == watch
    assert parse_watch(stored, yaml=True) == watch


@pytest.mark.parametrize("name", ["watch.yaml", "watch.yml", "watch.json", "watch"])
def test_read_from_a_file(tmp_path: Path, name: str) -> None:
    text = FULL if "y" in name else encode_watch(FULL_WATCH).decode()
    (tmp_path / name).write_text(text)
    assert read_watch(tmp_path / name) == FULL_WATCH
    assert read_watch(str(tmp_path / name)) == FULL_WATCH


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("watch.yaml", b"rules: [", "not YAML: "),
        ("watch.json", b"rules: []", "not JSON: "),
        ("watch.json", b" " * (1 << 20) + b"{}", "larger than 1048576 bytes"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadWatch) as caught:
        read_watch(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path / name}: {message}")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "not JSON: input data was truncated"),
        (b"rules", "not JSON: JSON is malformed: invalid character (byte 0)"),
        (b"3", "expected a mapping with `rules`, got int"),
    ],
)
def test_messages_keep_the_case_of_names(data: bytes, message: str) -> None:
    with pytest.raises(BadWatch, match=f"^{re.escape(message)}$"):
        parse_watch(data)


@pytest.mark.parametrize("kind", IRREGULAR)
def test_what_is_no_regular_file_is_refused(tmp_path: Path, kind: str) -> None:
    IRREGULAR[kind](tmp_path / "watch.json")
    with pytest.raises(BadWatch) as caught:
        in_time(lambda: read_watch(tmp_path / "watch.json"))
    reason = f"{kind}, not a file: give a file, or /dev/stdin"
    assert str(caught.value) == f"{tmp_path}/watch.json: {reason}"


def test_a_device_is_refused() -> None:
    with pytest.raises(BadWatch, match=r"^/dev/zero: a device, not a file"):
        in_time(lambda: read_watch("/dev/zero"))


def test_a_pipe_that_a_user_names_as_a_stream() -> None:
    """As bash does for ``<(command)``."""
    read, write = os.pipe()
    with os.fdopen(write, "wb") as other_end:
        other_end.write(encode_watch(FULL_WATCH))
    try:
        assert in_time(lambda: read_watch(f"/dev/fd/{read}")) == FULL_WATCH
    finally:
        os.close(read)


def test_a_stream_without_an_end_is_not_read_to_it(tmp_path: Path) -> None:
    with Path("/dev/zero").open("rb") as endless:
        path = f"/dev/fd/{endless.fileno()}"
        with pytest.raises(BadWatch, match="larger than 1048576 bytes"):
            in_time(lambda: read_watch(path))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_watch(tmp_path / "watch.yaml")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({}, Watch()),
        (None, Watch()),
        ({"rules": None}, Watch()),
        ({"rules": []}, Watch(rules=())),
        ({"rules": ["A", "B"]}, Watch(rules=(RuleConfig("A"), RuleConfig("B")))),
        ({"rules": ["A", {"rule": "A", "name": "again"}]}, ["A", "again"]),
        ({"rules": [{"rule": "A", "name": None, "mode": None}]}, Watch(rules=(RuleConfig("A"),))),
        (
            {"rules": [{"rule": "A", "for_steps": "3"}]},
            Watch(rules=(RuleConfig("A", for_steps=3),)),
        ),
        ({"rules": [{"rule": "A", "grace": 5}]}, Watch(rules=(RuleConfig("A", grace=5),))),
        ({"rules": [{"rule": "A", "actions": []}]}, Watch(rules=(RuleConfig("A", actions=()),))),
        ({"dry_run": "true"}, Watch(dry_run=True)),
        (
            {"capture": {"collections": {"any name": {}}}},
            Watch(capture=Capture(collections={"any name": CollectionConfig()})),
        ),
    ],
)
def test_plain_data(content: Any, expected: Watch | list[str]) -> None:
    watch = to_watch(content)
    if isinstance(expected, list):
        assert [rule.configuration_name for rule in watch.rules or ()] == expected
    else:
        assert watch == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("VanishingGradient", "expected a mapping with `rules`, got str"),
        (3, "expected a mapping with `rules`, got int"),
        ({"DebugRuleConfigurations": None}, "expected a mapping with `rules`, got NoneType"),
        (["VanishingGradient"], "[0] has no RuleConfigurationName: put other rules under `rules:`"),
        ([{"rule": "A"}], "[0] has no RuleConfigurationName: put other rules under `rules:`"),
        ({"rule": []}, "rule: unknown key 'rule': did you mean rules?"),
        (
            {"rules": ["A", {"rule": "B", "threshold": 1}]},
            "rules[1].threshold: unknown key 'threshold': known are actions, ",
        ),
        (
            {"notify": {"group_wai": "1s"}},
            "notify.group_wai: unknown key 'group_wai': did you mean group_wait?",
        ),
        ({"capture": {"interval": 1}}, "capture: unknown key 'interval': known are collections, "),
        (
            {"capture": {"collections": {"w": {"regex": "x"}}}},
            "capture.collections['w']: unknown key 'regex'",
        ),
        (
            {"rules": ["A", "B", "A"]},
            "rules[2]: 'A' is used 2 times: give each rule its own `name`",
        ),
        ({"rules": ["A", {"rule": "B", "name": "A"}]}, "rules[1]: 'A' is used 2 times"),
        ({"rules": [f"R{at}" for at in range(201)]}, "201 rules, but at most 200 are watched"),
        ({"rules": "A"}, "rules: expected a list, got a text"),
        ({"rules": {"A": {}}}, "rules: expected a list, got a mapping"),
        ({"rules": [None]}, "rules[0]: expected a mapping, got nothing"),
        ({"rules": [{"name": "a"}]}, "rules[0]: has no `rule`: name one"),
        ({"rules": [{"rule": 3}]}, "rules[0].rule: expected a text, got a whole number"),
        ({"rules": [{"rule": "A" * 257}]}, "rules[0].rule: expected a text of length <= 256"),
        (
            {"rules": [{"rule": "A", "name": "a" * 257}]},
            "rules[0].name: expected a text of length <= 256",
        ),
        ({"rules": [{"rule": "A", "parameters": None}]}, "rules[0].parameters: expected a mapping"),
        (
            {"rules": [{"rule": "A", "mode": "eval"}]},
            "rules[0].mode: invalid enum value 'eval'",
        ),
        ({"rules": [{"rule": "A", "every": 1.5}]}, "rules[0].every: expected a whole number"),
        (
            {"rules": [{"rule": "A", "actions": "stop"}]},
            "rules[0].actions: expected a list",
        ),
        (
            {"rules": [{"rule": "A", "actions": ["stop", ""]}]},
            "rules[0].actions[1]: expected a text of length >= 1",
        ),
        (
            {"actions": ["metric:" + "m" * 506]},
            "actions[0]: expected a text of length <= 512",
        ),
        (
            {"rules": [{"rule": "A", "actions": ["email"] * 21}]},
            "rules[0].actions: expected a list of length <= 20",
        ),
        ({"profile": "amazon"}, "profile: invalid enum value 'amazon'"),
        ({"severity": "fatal"}, "severity: invalid enum value 'fatal'"),
        ({"dry_run": "perhaps"}, "dry_run: expected true or false, got a text"),
        ({"capture": []}, "expected a mapping, got a list - at `capture`"),
        (
            {"capture": {"collections": {"w": 1}}},
            "expected a mapping, got a whole number - at `capture.collections['w']`",
        ),
    ],
)
def test_what_is_wrong_and_where(content: Any, message: str) -> None:
    with pytest.raises(BadWatch) as caught:
        to_watch(content)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\xff\xfe",
        b"{",
        b'{"rules": [}',
        b'{"profile": "\xff"}',
        b'{"\xff": 1}',
        b'{"profile": "\\ud800"}',
        b'{"capture": {"save_interval_seconds": 1e999}}',
        b'{"rules": [{"rule": "A", "for_steps": 1' + b"0" * 5000 + b"}]}",
        b'{"' + b"k" * 100_000 + b'": 1}',
        b'{"profile": "' + b"p" * 100_000 + b'"}',
        b'{"capture": {"collections": {"' + b"c" * 100_000 + b'": {"x": 1}}}}',
        b"[" * 100_000,
        b'{"rules":' * 100_000,
        b'{"rules": [{"rule": "two\\nlines"}, {"rule": "two\\nlines"}]}',
        b'{"two\\nlines": 1}',
    ],
)
def test_malformed_json_is_one_short_line(data: bytes) -> None:
    with pytest.raises(BadWatch) as caught:
        parse_watch(data)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe\x00",
        b"rules: [VanishingGradient",
        b"rules:\n  - a\n - b",
        b"\t- a",
        b"--- a\n--- b",
        b"? {a: b}\n: c",
        b"&a [*a]",
        b"rules: !!python/object/apply:os.system [ls]",
        b"dry_run: !!bool x",
        b"dry_run: !!timestamp x",
        b'dry_run: !!int ""',
        b"custom_rules: !!binary aGk=",
        b"capture: {save_interval_seconds: .inf}",
        b"rules: [{rule: A, parameters: {threshold: .nan}}]",
        b'custom_rules: "\\ud800"',
        b"[" * 2000,
        b"just text",
    ],
)
def test_malformed_yaml_is_one_short_line(data: bytes) -> None:
    with pytest.raises(BadWatch) as caught:
        parse_watch(data, yaml=True)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_yaml_reads_1e_minus_7_as_a_word_and_we_as_a_number() -> None:
    watch = parse_watch(
        b"rules: [{rule: VanishingGradient, parameters: {threshold: 1e-6}}]", yaml=True
    )
    ((watched,), ()) = resolve(watch)
    assert watched.parameters == {"threshold": 1e-6, "share": 1e-6}


AMAZONS = [
    {
        "RuleConfigurationName": "vanishing",
        "RuleEvaluatorImage": "1234.dkr.ecr.eu-west-1.amazonaws.com/rules:latest",
        "RuleParameters": {"rule_to_invoke": "VanishingGradient", "threshold": "1e-6"},
    },
    {
        "RuleConfigurationName": "LossNotDecreasing",
        "RuleParameters": {
            "rule_to_invoke": "LossNotDecreasing",
            "num_steps": "50",
            "start_step": "5",
            "action_json": '[{\\"name\\": \\"stoptraining\\", \\"training_job_prefix\\": \\"j\\"}, '
            '{\\"endpoint\\": \\"Ann.Lee+ml@Example.co.uk\\", \\"name\\": \\"email\\"}]',
        },
    },
]


@pytest.mark.parametrize("content", [AMAZONS, {"DebugRuleConfigurations": AMAZONS}])
def test_amazons_configuration(content: Any) -> None:
    watch = parse_watch(json.dumps(content).encode())
    assert watch == to_watch(content)
    assert watch == Watch(
        profile="sagemaker",
        rules=(
            RuleConfig("VanishingGradient", "vanishing", {"threshold": "1e-6"}),
            RuleConfig(
                "LossNotDecreasing",
                "LossNotDecreasing",
                {"num_steps": "50", "start_step": "5"},
                actions=("stop", "email:Ann.Lee+ml@Example.co.uk"),
            ),
        ),
    )
    good, bad = resolve(watch)
    assert (len(good), bad) == (2, ())
    assert good[1].options.start_step == 5


def test_a_whole_request_to_create_a_training_job() -> None:
    request = {"TrainingJobName": "j", "DebugRuleConfigurations": AMAZONS[:1]}
    assert to_watch(request).profile == "sagemaker"


def keys(*often: str) -> st.SearchStrategy[str]:
    return st.sampled_from(often) | st.text(max_size=5)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=10),
    st.sampled_from(["30s", "EVAL", "VanishingGradient", "critical", "(", "sagemaker", "stop"]),
)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
)
parameters = st.dictionaries(
    keys("threshold", "num_steps", "mode", "grace", "every", "tensor_regex", "action_json"),
    anything | st.just("[" * 5000),
    max_size=3,
)
fields = list(RuleConfig.__dataclass_fields__)
rules = st.one_of(
    anything,
    st.sampled_from(["VanishingGradient", "ExplodingTensor", "LossNotDecreasing"]),
    st.fixed_dictionaries(
        {"rule": st.sampled_from(["LossNotDecreasing", "VanishingGradient"])},
        optional={name: scalars for name in fields if name not in ("rule", "parameters")}
        | {"parameters": parameters},
    ),
)
watches = st.dictionaries(
    keys(*Watch.__dataclass_fields__),
    anything | st.lists(rules, max_size=3),
    max_size=3,
)
amazons = st.lists(
    st.fixed_dictionaries(
        {"RuleConfigurationName": scalars},
        optional={
            "RuleParameters": anything
            | st.builds(
                lambda rule, more: {"rule_to_invoke": rule, **more},
                st.sampled_from(["VanishingGradient", "LossNotDecreasing"]),
                parameters,
            )
        },
    ),
    max_size=3,
)


@settings(max_examples=300)
@given(anything | watches | amazons | amazons.map(lambda each: {"DebugRuleConfigurations": each}))
def test_any_json_is_a_watch_or_a_bad_one(content: Any) -> None:
    """And any watch can be resolved, and stored and read again."""
    for yaml in (False, True):
        try:
            watch = parse_watch(json.dumps(content).encode(), yaml=yaml)
        except BadWatch as error:
            assert len(str(error).splitlines()) == 1  # noqa: PT017
            continue
        good, bad = resolve(watch)
        assert [*good, *bad] or watch.rules == ()
        assert all(len(refused.reason.splitlines()) == 1 for refused in bad)
        assert parse_watch(encode_watch(watch)) == watch


@given(st.binary(max_size=50))
def test_any_bytes_are_a_watch_or_a_bad_one(data: bytes) -> None:
    for yaml in (False, True):
        try:
            watch = parse_watch(data, yaml=yaml)
        except BadWatch:
            continue
        assert isinstance(watch, Watch)


def test_a_few_lines_of_aliases_do_not_become_gigabytes() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(BadWatch, match="aliases expand"):
        parse_watch("\n".join(lines).encode(), yaml=True)
