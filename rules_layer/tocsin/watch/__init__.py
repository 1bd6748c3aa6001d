"""What to watch and what to do about it."""

from tocsin.watch._actions import action_fault
from tocsin.watch._bad import BadWatch
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
from tocsin.watch._hook_parameters import capture_from
from tocsin.watch._load import encode_watch, parse_watch, read_watch, to_watch
from tocsin.watch._watched import Options, Refused, Watched, resolve

__all__ = [
    "BadWatch",
    "Capture",
    "CollectionConfig",
    "Notify",
    "Options",
    "Refused",
    "RuleConfig",
    "SaveConfig",
    "Watch",
    "Watched",
    "action_fault",
    "belongs",
    "built_in",
    "capture_from",
    "encode_watch",
    "parse_watch",
    "patterns",
    "plain_capture",
    "read_watch",
    "reductions",
    "resolve",
    "to_capture",
    "to_watch",
]
