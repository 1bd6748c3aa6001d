"""What an earlier version remembered is read, and published as that version would have."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tocsin.evaluation import (
    Checkpoint,
    RuleRecord,
    decode_checkpoint,
    encode_checkpoint,
    last_changes,
)
from tocsin.evaluation.upgrade import VERSION
from tocsin.events import (
    ConfigurationRefused,
    NotifyPolicy,
    RunSummary,
    StatusChange,
    encode,
    timestamp,
)

from tests.events import CHANGE, RUN, SUMMARY

STATE = Path(__file__).parents[2] / "fixtures" / "state"
OLD = (STATE / "checkpoint-1.zlib").read_bytes()
PUBLISHED_AT = timestamp(1.8e9)


def changed(data: bytes, change: Callable[[Any], None]) -> bytes:
    """The checkpoint with its JSON changed."""
    content = json.loads(zlib.decompress(data))
    change(content)
    return zlib.compress(json.dumps(content).encode())


def test_what_was_not_yet_published_is_published_as_it_would_have_been() -> None:
    expected = json.loads((STATE / "checkpoint-1-events.json").read_text())
    names = {StatusChange: "changes", RunSummary: "summaries", ConfigurationRefused: "refusals"}
    found: dict[str, list[Any]] = {name: [] for name in names.values()}
    for event in decode_checkpoint(OLD).unpublished:
        if not isinstance(event, ConfigurationRefused):
            event = replace(event, evaluated_at=PUBLISHED_AT)
        found[names[type(event)]].append(json.loads(encode(event, 200_000)))
    for kind in ("changes", "summaries"):
        for event in (*found[kind], *expected[kind]):  # findings were in no order then
            event["DebugRuleEvaluationStatuses"].sort(key=itemgetter("RuleConfigurationName"))
    assert found == expected
    assert all(found.values())


def test_what_is_known_of_its_rules_is_kept() -> None:
    old, content = decode_checkpoint(OLD), json.loads(zlib.decompress(OLD))
    assert (old.run, old.frontier, old.sequence) == (content["run"], 70, 5)
    assert {name: record.status for name, record in old.rules.items()} == {
        name: record["status"] for name, record in content["rules"].items()
    }
    assert old.rules["small"].last_violation is not None
    assert old.rules["LossNotDecreasing"].state == content["rules"]["LossNotDecreasing"]["state"]
    assert [(change.sequence, change.dedup_id) for change in last_changes(old)] == sorted(
        (record["told"]["sequence"], record["told"]["dedup_id"])
        for record in content["rules"].values()
    )


def test_it_is_written_as_it_is_now() -> None:
    old = decode_checkpoint(OLD)
    new = encode_checkpoint(old)
    assert json.loads(zlib.decompress(new))["version"] == VERSION == 2
    assert decode_checkpoint(new) == old


def test_one_from_before_changes_were_numbered() -> None:
    def older(content: Any) -> None:
        for name in ("sequence", "problems", "refusals", "summaries"):
            del content[name]
        for change in content["outbox"]:
            for name in ("sequence", "inhibits", "policy", "silences"):
                del change[name]
        for record in content["rules"].values():
            del record["told"]

    old = decode_checkpoint(changed(OLD, older))
    assert (old.sequence, old.summaries, old.refusals, last_changes(old)) == (0, (), (), ())
    assert {(change.sequence, change.notify) for change in old.outbox} == {(0, NotifyPolicy())}
    assert list(old.rules) == list(decode_checkpoint(OLD).rules)


def test_one_of_a_run_in_which_nothing_was_found() -> None:
    assert decode_checkpoint(zlib.compress(b'{"run": "s3://b/r"}')) == Checkpoint("s3://b/r")


NEW = Checkpoint(
    RUN,
    rules={"eval-loss": RuleRecord("LossNotDecreasing", "f", last_change=CHANGE)},
    outbox=(CHANGE,),
    summaries=(SUMMARY,),
    refusals=(ConfigurationRefused("j1", RUN, None, "watch.json", "not JSON", "d"),),
)


def test_one_that_is_written_now_comes_back() -> None:
    data = encode_checkpoint(NEW)
    assert json.loads(zlib.decompress(data))["version"] == 2
    assert decode_checkpoint(data) == NEW


@pytest.mark.parametrize("version", range(2, VERSION + 1))
def test_what_each_version_wrote_is_read(version: int) -> None:
    """From files: a new version needs one of its own. Version 1 has the tests above."""
    file = STATE / f"checkpoint-{version}.zlib"
    written = json.loads(file.with_suffix(".json").read_text())
    read = json.loads(zlib.decompress(encode_checkpoint(decode_checkpoint(file.read_bytes()))))
    rules = read.pop("rules")
    for name, record in written.pop("rules").items():
        assert {key: rules[name][key] for key in record} == record
    assert {key: read[key] for key in written} == written | {"version": VERSION}


def test_a_field_that_a_later_version_adds_is_left_out() -> None:
    data = changed(encode_checkpoint(NEW), lambda content: content.update(added={"by": "later"}))
    assert decode_checkpoint(data) == NEW


def test_a_summary_from_before_summaries_had_bounds_costs_the_earlier_saves_only() -> None:
    reference = {"step": 1, "summary": {"variance": -1.0}}
    data = changed(
        encode_checkpoint(NEW), lambda content: content.update(references={"TRAIN": [reference]})
    )
    assert decode_checkpoint(data) == NEW


BROKEN: list[tuple[tuple[str | int, ...], Any]] = [
    (("run",), None),
    (("rules",), []),
    (("outbox",), 7),
    (("summaries",), {"a": 1}),
    (("version",), "one"),
    (("version",), VERSION + 1),
]
BROKEN_OLD: list[tuple[tuple[str | int, ...], Any]] = [
    (("outbox", 0), "text"),
    (("outbox", 0), {}),
    (("outbox", 0, "mode"), 99),
    (("outbox", 0, "mode"), []),
    (("outbox", 0, "index_modified"), "noon"),
    (("outbox", 0, "index_modified"), 1e300),
    (("outbox", 0, "status"), "Fine"),
    (("outbox", 0, "policy"), [1]),
    (("outbox", 2, "silences", 0), {}),
    (("outbox", 2, "violation"), "text"),
    (("rules", "small"), None),
    (("rules", "small", "told"), [1]),
    (("summaries", 0, "statuses", 0, "changed_at"), "noon"),
    (("refusals", 0), {"where": "watch.json"}),
]
BROKEN_NEW: list[tuple[tuple[str | int, ...], Any]] = [
    (("outbox", 0), {}),
    (("outbox", 0, "Step"), "one"),
    (("rules", "eval-loss", "last_change"), {"name": "A"}),
    (("refusals", 0, "Where"), 1),
]


@pytest.mark.parametrize(
    ("data", "at", "value"),
    [
        *((OLD, *broken) for broken in BROKEN + BROKEN_OLD),
        *((encode_checkpoint(NEW), *broken) for broken in BROKEN + BROKEN_NEW),
    ],
)
def test_a_broken_one_is_refused(data: bytes, at: tuple[str | int, ...], value: Any) -> None:
    def damage(content: Any) -> None:
        for key in at[:-1]:
            content = content[key]
        content[at[-1]] = value

    with pytest.raises(ValueError, match=r"^not a checkpoint: "):
        decode_checkpoint(changed(data, damage))


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", OLD[:-20], zlib.compress(b"[]"), zlib.compress(b"\xff"), zlib.compress(b"{}")],
)
def test_what_is_not_a_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^not a checkpoint: "):
        decode_checkpoint(data)
