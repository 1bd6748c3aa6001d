"""Evaluation of a run: look for new steps, load, fold, commit, publish."""

from tocsin.evaluation.batching import Failures, handle_batch
from tocsin.evaluation.bounds import OutOfTime
from tocsin.evaluation.checkpoint import Checkpoint, last_changes
from tocsin.evaluation.checkpoint_format import decode_checkpoint, encode_checkpoint
from tocsin.evaluation.evaluator import end_job, evaluate
from tocsin.evaluation.folding import OnVerdict, fold
from tocsin.evaluation.history_rules import watch_of_history
from tocsin.evaluation.messages import BadMessage, Hint, JobEnded, parse_message
from tocsin.evaluation.offline import (
    MemoryCheckpoints,
    MemoryCoordination,
    MemoryHints,
    MemoryJobs,
    MemoryPublisher,
    MemoryTraces,
    check,
    memory_ports,
)
from tocsin.evaluation.planning import FoundFile, ReadyStep, StepPlan, plan
from tocsin.evaluation.ports import (
    CheckpointConflict,
    CheckpointStore,
    Coordination,
    EvaluationPorts,
    HintQueue,
    JobDescription,
    JobDirectory,
    Lease,
    Publisher,
    StoredCheckpoint,
    TraceStore,
    Trouble,
    pause_after,
    pause_after_outages,
)
from tocsin.evaluation.reconciliation import Progress, reconcile
from tocsin.evaluation.records import RuleRecord, Violation
from tocsin.evaluation.status_changes import configure, finish, replayed
from tocsin.evaluation.status_document import document, leads_of, state_of, with_cause
from tocsin.evaluation.trace import (
    MOST_POINTS,
    Lane,
    Point,
    Scalar,
    Trace,
    decode_trace,
    encode_trace,
)
from tocsin.evaluation.unit_of_work import EvaluationReport, UnitOfWork

__all__ = [
    "MOST_POINTS",
    "BadMessage",
    "Checkpoint",
    "CheckpointConflict",
    "CheckpointStore",
    "Coordination",
    "EvaluationPorts",
    "EvaluationReport",
    "Failures",
    "FoundFile",
    "Hint",
    "HintQueue",
    "JobDescription",
    "JobDirectory",
    "JobEnded",
    "Lane",
    "Lease",
    "MemoryCheckpoints",
    "MemoryCoordination",
    "MemoryHints",
    "MemoryJobs",
    "MemoryPublisher",
    "MemoryTraces",
    "OnVerdict",
    "OutOfTime",
    "Point",
    "Progress",
    "Publisher",
    "ReadyStep",
    "RuleRecord",
    "Scalar",
    "StepPlan",
    "StoredCheckpoint",
    "Trace",
    "TraceStore",
    "Trouble",
    "UnitOfWork",
    "Violation",
    "check",
    "configure",
    "decode_checkpoint",
    "decode_trace",
    "document",
    "encode_checkpoint",
    "encode_trace",
    "end_job",
    "evaluate",
    "finish",
    "fold",
    "handle_batch",
    "last_changes",
    "leads_of",
    "memory_ports",
    "parse_message",
    "pause_after",
    "pause_after_outages",
    "plan",
    "reconcile",
    "replayed",
    "state_of",
    "watch_of_history",
    "with_cause",
]
