"""Wake up for a run, evaluate what is new, remember, publish."""

from tocsin.evaluation._check import check
from tocsin.evaluation._checkpoint import (
    Checkpoint,
    RuleRecord,
    Violation,
    decode_checkpoint,
    encode_checkpoint,
    last_changes,
)
from tocsin.evaluation._desk import Hint, Report
from tocsin.evaluation._document import document
from tocsin.evaluation._evaluator import end_job, evaluate
from tocsin.evaluation._fold import configure, finish, fold
from tocsin.evaluation._frontier import Plan, Ready, Seen, plan
from tocsin.evaluation._memory import (
    MemoryCheckpoints,
    MemoryCoordination,
    MemoryHints,
    MemoryJobs,
    MemoryPublisher,
    memory_world,
)
from tocsin.evaluation._messages import BadMessage, JobEnded, parse_message
from tocsin.evaluation._patrol import HintsLost, patrol
from tocsin.evaluation._ports import (
    CheckpointStore,
    Conflict,
    Coordination,
    HintQueue,
    Job,
    Jobs,
    Lease,
    Publisher,
    Stored,
    World,
)
from tocsin.evaluation._reconcile import Progress, reconcile

__all__ = [
    "BadMessage",
    "Checkpoint",
    "CheckpointStore",
    "Conflict",
    "Coordination",
    "Hint",
    "HintQueue",
    "HintsLost",
    "Job",
    "JobEnded",
    "Jobs",
    "Lease",
    "MemoryCheckpoints",
    "MemoryCoordination",
    "MemoryHints",
    "MemoryJobs",
    "MemoryPublisher",
    "Plan",
    "Progress",
    "Publisher",
    "Ready",
    "Report",
    "RuleRecord",
    "Seen",
    "Stored",
    "Violation",
    "World",
    "check",
    "configure",
    "decode_checkpoint",
    "document",
    "encode_checkpoint",
    "end_job",
    "evaluate",
    "finish",
    "fold",
    "last_changes",
    "memory_world",
    "parse_message",
    "patrol",
    "plan",
    "reconcile",
]
