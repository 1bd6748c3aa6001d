"""What to watch and what to do about it."""

from tocsin.watch._actions import NOTIFYING, action_fault
from tocsin.watch._bad import BadWatch, Fault, placed
from tocsin.watch._built_in import belongs, built_in
from tocsin.watch._capture import patterns, plain_capture, reductions, to_capture
from tocsin.watch._config import (
    Capture,
    CollectionConfig,
    Notify,
    RuleConfig,
    SaveConfig,
    Watch,
)
from tocsin.watch._faults import alert_faults, faults
from tocsin.watch._hook_parameters import capture_from
from tocsin.watch._lint import Problem, Refuses, lint
from tocsin.watch._load import encode_watch, parse_watch, read_watch, to_watch
from tocsin.watch._policy import policy
from tocsin.watch._silence import WATCH_FILE, Silence
from tocsin.watch._survey import survey
from tocsin.watch._watched import Options, Refused, Watched, resolve

__all__ = [
    "NOTIFYING",
    "WATCH_FILE",
    "BadWatch",
    "Capture",
    "CollectionConfig",
    "Fault",
    "Notify",
    "Options",
    "Problem",
    "Refused",
    "Refuses",
    "RuleConfig",
    "SaveConfig",
    "Silence",
    "Watch",
    "Watched",
    "action_fault",
    "alert_faults",
    "belongs",
    "built_in",
    "capture_from",
    "encode_watch",
    "faults",
    "lint",
    "parse_watch",
    "patterns",
    "placed",
    "plain_capture",
    "policy",
    "read_watch",
    "reductions",
    "resolve",
    "survey",
    "to_capture",
    "to_watch",
]
