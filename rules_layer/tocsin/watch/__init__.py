"""The watch file: which rules watch a run, and what happens when one fires."""

from tocsin.watch.actions import NOTIFYING, action_fault
from tocsin.watch.arrangement import Arrangement, Chosen
from tocsin.watch.builtin_collections import belongs, built_in, built_in_patterns
from tocsin.watch.capture import patterns, plain_capture, quantiles, reductions, to_capture
from tocsin.watch.config import (
    MOST_BASELINES,
    MOST_PRICE,
    Capture,
    CollectionConfig,
    Machine,
    Notify,
    Relaunch,
    RuleConfig,
    SaveConfig,
    Watch,
)
from tocsin.watch.configured import configured
from tocsin.watch.errors import BadWatch, Fault
from tocsin.watch.linting import FaultInLine, Refuses, lint
from tocsin.watch.load import encode_watch, parse_parts, parse_watch, read_watch, to_watch
from tocsin.watch.notify_policy import policy
from tocsin.watch.sagemaker import capture_from
from tocsin.watch.selection import Selection
from tocsin.watch.selector import Candidate, PatternMatcher, reads_of
from tocsin.watch.silence import WATCH_FILE, Silence
from tocsin.watch.validation import alert_faults, faults
from tocsin.watch.watched import Options, Refused, Watched, resolve

__all__ = [
    "MOST_BASELINES",
    "MOST_PRICE",
    "NOTIFYING",
    "WATCH_FILE",
    "Arrangement",
    "BadWatch",
    "Candidate",
    "Capture",
    "Chosen",
    "CollectionConfig",
    "Fault",
    "FaultInLine",
    "Machine",
    "Notify",
    "Options",
    "PatternMatcher",
    "Refused",
    "Refuses",
    "Relaunch",
    "RuleConfig",
    "SaveConfig",
    "Selection",
    "Silence",
    "Watch",
    "Watched",
    "action_fault",
    "alert_faults",
    "belongs",
    "built_in",
    "built_in_patterns",
    "capture_from",
    "configured",
    "encode_watch",
    "faults",
    "lint",
    "parse_parts",
    "parse_watch",
    "patterns",
    "plain_capture",
    "policy",
    "quantiles",
    "read_watch",
    "reads_of",
    "reductions",
    "resolve",
    "to_capture",
    "to_watch",
]
