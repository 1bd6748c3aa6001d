"""A search over twenty trials, in which rules stop those that come to nothing.

On the embedded AWS: trials are training jobs of the local SageMaker, rules are evaluated by the
deployed functions. The search runs twice with the same trials: at first rules may only log what
they would do (``dry_run``), then they stop.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from tocsin.aws.s3 import S3Checkpoints
from tocsin.evaluation import document
from tocsin.watch import encode_watch, read_watch

from examples.early_stop.train import SAVED
from examples.shown import Shown, chart
from local import LocalAws, local_aws
from local.interpreter import interpreter
from local.paths import ROOT

HERE = Path(__file__).parent
SMALL = {"trials": 2, "steps": 300, "seed": 4}
_PATHS = (ROOT / "rules_layer", ROOT / "hooks", ROOT)


@dataclass(frozen=True)
class Outcome:
    """steps: of training. rule: the one that stopped the job; empty if none did."""

    steps: int
    seconds: float
    accuracy: float
    rule: str = ""


def search(
    aws: LocalAws, name: str, watch: Path, *, trials: int, steps: int, seed: int
) -> list[Outcome]:
    """Runs the search in an environment of its own, which is made at its first use."""
    python = interpreter(ROOT / ".venv-optuna", HERE / "requirements.txt")
    out = f"s3://{aws.outputs['CaptureBucketName']}/{name}"
    done = subprocess.run(
        [
            *(python, HERE / "search.py", out, watch),
            *(f"--trials={trials}", f"--steps={steps}", f"--seed={seed}"),
            *("--", sys.executable, "-m", "examples.early_stop.train"),
        ],
        env={**os.environ, **aws.environment, "PYTHONPATH": ":".join(map(str, _PATHS))},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [outcome(aws, line) for line in done.stdout.splitlines()]


def outcome(aws: LocalAws, line: str) -> Outcome:
    """Describe a line of the search, with the rule that fired first if the job was stopped."""
    trial = json.loads(line)
    rule = ""
    if trial["status"] == "Stopped":
        checkpoints = S3Checkpoints(aws.client("s3"), aws.outputs["StateBucketName"])
        found = document(checkpoints.load(trial["run"]).checkpoint)["rules"]
        fired = {each["FiredAt"]["step"]: each["Rule"] for each in found if each["FiredAt"]}
        rule = fired[min(fired)]
    return Outcome(trial["last_step"] + SAVED, trial["seconds"], trial["accuracy"], rule)


def searched(
    aws: LocalAws, out: Path, *, trials: int = 20, steps: int = 600, seed: int = 0
) -> Shown:
    """Both searches, and what they cost."""
    watch = HERE / "watch.yaml"
    dry = out / "watch.json"
    dry.write_bytes(encode_watch(replace(read_watch(watch), dry_run=True)))
    whole = search(aws, "early-stop-whole", dry, trials=trials, steps=steps, seed=seed)
    stopped = search(aws, "early-stop", watch, trials=trials, steps=steps, seed=seed)
    best, found = (max(each.accuracy for each in search) for search in (whole, stopped))
    rules = Counter(each.rule for each in stopped if each.rule)
    figures = {
        "trials": str(trials),
        "steps": spent([each.steps for each in whole], [each.steps for each in stopped]),
        "seconds": spent([each.seconds for each in whole], [each.seconds for each in stopped]),
        "best accuracy": f"{best:.1%}, with rules {found:.1%}",
        "stopped by": ", ".join(f"{rule} {n}" for rule, n in rules.most_common()) or "none",
    }
    lines = {"without rules": progress(whole), "with rules": progress(stopped)}
    title = "Best accuracy by steps of training"
    return Shown(figures, chart(title, "steps of all trials", lines))


def spent(whole: Sequence[float], stopped: Sequence[float]) -> str:
    without, with_rules = sum(whole), sum(stopped)
    return f"{without:,.0f}, with rules {with_rules:,.0f} (-{1 - with_rules / without:.0%})"


def progress(outcomes: Sequence[Outcome]) -> list[tuple[float, float]]:
    """The best accuracy so far after each trial, by the steps of all trials so far."""
    steps = accumulate(each.steps for each in outcomes)
    best = accumulate((each.accuracy for each in outcomes), max)
    return [(0.0, 0.0), *zip(map(float, steps), best, strict=True)]


def run(out: Path, *, small: bool = False) -> Shown:
    """Twenty trials of 600 steps; in the small form two of 300, with a learning rate of 7 and 8."""
    with local_aws({"stopGuard": "50/10m"}) as aws:
        return searched(aws, out, **SMALL) if small else searched(aws, out)
