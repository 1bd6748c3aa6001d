"""Hook and evaluation agree on what a rule reads, for every tensor that a hook may write."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tocsin.model import COLLECTION_ROLES, Role
from tocsin.rules import PROFILES, TRAINING, get_rule, rule_names
from tocsin.tensors import Collection, Collections, Entry
from tocsin.watch import (
    Capture,
    CollectionConfig,
    PatternMatcher,
    Selection,
    Watched,
    patterns,
    resolve,
    to_watch,
)
from tocsin_hooks.capture import capture
from tocsin_hooks.plan import CapturePlan, Saved
from tocsin_hooks.settings import CaptureSettings
from tocsin_hooks.wishes import wanting

RULES = [
    name
    for name in rule_names(about=TRAINING)
    if get_rule(name).__module__.startswith("tocsin.rules.")
]

NAMES = st.sampled_from(
    ["loss", "fc.weight", "fc.bias", "gradient/fc.weight", "relu0_output_0", "tanh0_input_0",
     "train-rmse", "train-auc", "accuracy", "trees/Node", "feature_importance/gain/f0", "lr",
     "labels", "Net_output_0", "full_shap/f0", "running_mean", "mine"]
) | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)  # fmt: skip
COLLECTIONS = st.sampled_from([*COLLECTION_ROLES, "tanh_output", "default", "all", "mine", "yours"])
PATTERNS = st.sampled_from(["", "^fc", "weight", "loss|auc", r"\d", "_output"])
KINDS = st.sampled_from([None, "relu", "tanh", "sigmoid", "own"])
CAPTURES = st.dictionaries(
    COLLECTIONS, st.lists(PATTERNS, max_size=2).map(lambda found: CollectionConfig(tuple(found))),
    max_size=4,
).map(lambda found: Capture(collections=found))  # fmt: skip
GIVEN = st.none() | st.lists(COLLECTIONS, min_size=1, max_size=3, unique=True).map(tuple)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "include": st.lists(PATTERNS.filter(bool), min_size=1, max_size=2),
        "exclude": st.lists(PATTERNS.filter(bool), min_size=1, max_size=2),
    },
)


def watched(rule: str, profile: str, options: dict[str, list[str]]) -> tuple[Watched, ...]:
    found, refused = resolve(to_watch({"profile": profile, "rules": [{"rule": rule, **options}]}))
    assert refused == ()
    return found


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=25)
@given(
    profile=st.sampled_from(PROFILES),
    options=OPTIONS,
    configured=CAPTURES,
    name=NAMES,
    collections=GIVEN,
    role=st.none() | st.sampled_from(Role),
    kind=KINDS,
    num_workers=st.integers(1, 2),
)
def test_hook_and_evaluation_read_the_same(
    rule: str,
    profile: str,
    options: dict[str, list[str]],
    configured: Capture,
    name: str,
    collections: tuple[str, ...] | None,
    role: Role | None,
    kind: str | None,
    num_workers: int,
) -> None:
    rules = watched(rule, profile, options)
    capture_settings = CaptureSettings(configured)
    saved = Saved(name, capture_settings.collections_of(name, collections), role, kind)
    (captured, *_) = capture(CapturePlan(saved), 1.0)
    in_the_run = Collections(
        num_workers,
        {
            each: Collection(
                each,
                patterns(configured.collections[each]) if each in configured.collections else (),
                (name,) if each in saved.collections else (),
            )
            for each in {*configured.collections, *saved.collections}
        },
    )
    chosen = Selection(rules, in_the_run).chosen(
        Entry(name, role=captured.role, kind=captured.kind)
    )
    by_hook = [*wanting(rules, saved, PatternMatcher(), alone=num_workers == 1)]
    assert by_hook == ([read for _, _, read in chosen.reads] if chosen else [])
    if chosen:
        assert (chosen.role, chosen.kind) == saved.place
