"""Threads that meet a type of a file for the first time at the same moment.

msgspec builds what it knows of a type when the type is first used, and other threads see it half
built: they crash. A decoder that is made at import is there before any thread.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

# This process only imports. So each of its forks is an interpreter that has decoded nothing yet.
SCRIPT = """
import logging, os, sys, threading, zlib
from tocsin import alerts, evaluation, tensors, watch
from tocsin.actions.formats import slack
from tocsin.aws import silences, ssm
from tocsin_hooks import container, control, stop

THREADS, TIMES = 8, 20
logging.disable()

class Storage:
    url = "s3://bucket/run"
    files = {"STOP.json": b'{"requested_at": 1.0}', "pace.json": b'{"from_step": 1}'}
    def read(self, key, limit=None):
        return self.files[key]

ALERT = '''{"source": "tocsin", "detail-type": "Tocsin Rule Evaluation Status Change",
"detail": {"TrainingJobName": "j", "Run": "s3://bucket/run", "RuleConfigurationName": "R",
"Rule": "R", "RuleEvaluationStatus": "IssuesFound", "DedupId": "d"}}'''
EVENT = {"detail-type": "t", "id": "i", "reason": "r", "TrainingJobName": "j", "Run": "s3://b/r"}
ENDPOINT = '{"url": "https://example.com"}'
SILENCES = zlib.compress(b'[{"until": "2026-12-01T08:00:00Z"}]')
WATCH = b'{"capture": {"collections": {"a": {"eval.save_interval": 2}}}, "notify": {}}'
COLLECTIONS = b'{"collections": {}, "_meta": {"num_workers": 1}}'
PACE = dict(first=False, alone=False, interval=1.0, ready=bool, select=None, progress=None)
TRACE = b'{"id": "a", "requested_at": "2026-12-01T08:00:00Z"}'
CHECKPOINT = GROUP = zlib.compress(b'{"run": "r"}')

MEETINGS = {
    "checkpoint": lambda: evaluation.decode_checkpoint(CHECKPOINT),
    "group of alerts": lambda: alerts.decode_group(GROUP),
    "message": lambda: alerts.parse_message(ALERT),
    "event for Slack": lambda: slack.slack_payload(EVENT),
    "endpoint": lambda: ssm._parse("e", ENDPOINT),
    "silences": lambda: silences._decode(SILENCES),
    "watch file": lambda: watch.parse_watch(WATCH),
    "collections file": lambda: tensors.decode_collections(COLLECTIONS, "worker_0"),
    "STOP.json": lambda: stop.StopFile(Storage(), "r", 0.0).look(),
    "pace.json": lambda: control.Control(Storage(), None, **PACE).look(),
    "TRACE.json": lambda: tensors.decode_trace_request(TRACE),
    "container": lambda: container._decoded(b"{}"),
}

def crashes(meet):
    if (child := os.fork()) == 0:
        sys.setswitchinterval(1e-6)
        gate, met = threading.Barrier(THREADS), []
        def run():
            gate.wait()
            met.append(meet())
        threads = [threading.Thread(target=run) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os._exit(len(met) != THREADS)
    return os.waitpid(child, 0)[1] != 0

for name, meet in MEETINGS.items():
    if failed := sum(crashes(meet) for _ in range(TIMES)):
        print(f"{name}: {failed} of {TIMES}")
"""


def test_eight_threads_meet_a_type_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def decoding_by_type() -> Iterator[str]:
    """Where ``decode`` gets a type, which it may be the first to meet."""
    for folder in ("rules_layer", "hooks", "functions", "local"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    given = {keyword.arg for keyword in node.keywords}
                    if node.func.attr == "decode" and "type" in given:
                        yield f"{file.relative_to(ROOT)}:{node.lineno}"


def test_each_type_has_a_decoder_that_is_made_at_import() -> None:
    assert list(decoding_by_type()) == []
