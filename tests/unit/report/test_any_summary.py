"""Whatever numbers an index file holds: every rule judges them, and the page is made."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tocsin.evaluation import MemoryTraces, check
from tocsin.model import Role, RuleStatus
from tocsin.report import html_of, stored_page
from tocsin.rules import MACHINE, PROFILES, TRAINING, get_rule, rule_names
from tocsin.tensors import Collection, LocalStorage, RunWriter, index_key
from tocsin.watch import to_watch

NOW = 2e9
RULES = {
    about: [name for name in rule_names(about=about) if get_rule(name).profiles]
    for about in (TRAINING, MACHINE)
}
KINDS = ("", "relu", "tanh", "sigmoid", "competing", "scores", "held out", "trained", "acting")
COUNTS = st.sampled_from([0, 1, 2, 4, 1000, 2**31, 2**53])
SIZES = st.sampled_from([0.0, 5e-324, 1e-300, 0.5, 3.0, 2.0**53, 1e300, 1.7e308])
REALS = st.builds(lambda size, sign: sign * size, SIZES, st.sampled_from([1.0, -1.0]))
SUMMARIES = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("size", "nan", "posinf", "neginf", "zeros"), COUNTS),
        **dict.fromkeys(("units", "inactive_units"), COUNTS),
        **dict.fromkeys(("min", "max", "mean"), REALS),
        **dict.fromkeys(("abs_mean", "variance", "l1", "l2", "update_l1", "update_l2"), SIZES),
        "fingerprint": st.sampled_from(["", "a", "b" * 64]),
        "quantiles": st.dictionaries(
            st.sampled_from(["0", "0.05", "0.5", "0.95", "1.0", "1e-05"]), REALS, max_size=3
        ),
        "bounds": st.fixed_dictionaries(
            {"low": st.none() | REALS, "high": st.none() | REALS, "below": COUNTS, "above": COUNTS}
        ),
        "unit_active": st.sampled_from(["", "AQAAAA==", "AQAAAAAAAAA=", "AQAAAAAAAAABAAAA"]),
        "channels": st.fixed_dictionaries(
            {
                "axis": st.sampled_from([0, 1, -1, 99]),
                "mean": st.lists(st.none() | REALS, max_size=3),
                "variance": st.lists(st.none() | SIZES, max_size=3),
            }
        ),
    },
)
BAD = st.sampled_from(
    [
        {"variance": -1.0},
        {"nan": 10**30},
        {"zeros": -1},
        {"size": 0.5},
        {"quantiles": {"x": 1.0}},
        {"quantiles": {"-1": 1.0}},
        {"unit_active": "!!!"},
        {"l2": "much"},
        {"channels": {"axis": 0, "mean": [1.0], "variance": [-1.0]}},
        [],
    ]
)
PLACES = [(f"{role}.{kind or 'none'}/weight", role, kind) for role in Role for kind in KINDS]
ENTRIES = st.fixed_dictionaries(
    {
        "place": st.sampled_from(PLACES),
        "summary": SUMMARIES | SUMMARIES | SUMMARIES | BAD,
        "shape": st.sampled_from([[], [4], [0], [3, 5], [1, 2, 3, 4], [2**53] * 3]),
        "dtype": st.sampled_from(["float32", "int64", "weird"]),
    }
)
STEPS = st.lists(st.lists(ENTRIES, min_size=4, max_size=12), min_size=2, max_size=5)


def write_run(run: LocalStorage, steps: list[list[dict[str, Any]]]) -> None:
    writer = RunWriter(run, run_id="r")
    writer.write_collections([Collection("all", include_regex=(".*",))])
    for step, entries in enumerate(steps):
        shapes = []
        for entry in entries:
            name, role, kind = entry["place"]
            known = {"tensorname": name, "originalname": name, "role": str(role), "kind": kind}
            shapes.append(known | {key: entry[key] for key in ("summary", "shape", "dtype")})
        meta: dict[str, Any] = {
            "mode": "EVAL" if step % 3 == 2 else "TRAIN",
            "mode_step": step,
            "tocsin": 1,
        }
        meta |= {"run_id": "r", "prev_step": step - 1 if step else None}
        document = {"meta": meta, "tensor_payload": [], "shape_payload": shapes}
        run.write(index_key(step, "worker_0"), json.dumps(document).encode())
    writer.close()


@pytest.mark.parametrize(
    ("about", "folder"), [(TRAINING, "debug-output"), (MACHINE, "profiler-output")]
)
@given(steps=STEPS, profile=st.sampled_from(PROFILES))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_rule_judges_any_summary_and_the_page_is_made(
    steps: list[list[dict[str, Any]]], profile: str, about: str, folder: str
) -> None:
    watch = to_watch({"rules": [{"rule": name} for name in RULES[about]], "profile": profile})
    with TemporaryDirectory() as parent:
        run = LocalStorage(Path(parent) / folder)
        write_run(run, steps)
        checkpoint, _ = check(run, watch, now=lambda: NOW)
        errors = {
            name: record.details
            for name, record in checkpoint.rules.items()
            if record.status is RuleStatus.ERROR
        }
        assert errors == {}
        assert checkpoint.refused_files == 0
        assert checkpoint.steps == len(steps)
        html_of(stored_page(checkpoint, MemoryTraces(), run, datetime.fromtimestamp(NOW, UTC)))
