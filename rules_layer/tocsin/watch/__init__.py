"""What to watch and what to do about it."""

from tocsin.watch._actions import action_fault
from tocsin.watch._config import Capture, CollectionConfig, Notify, RuleConfig, Watch
from tocsin.watch._load import BadWatch, encode_watch, parse_watch, read_watch, to_watch
from tocsin.watch._watched import Options, Refused, Watched, resolve

__all__ = [
    "BadWatch",
    "Capture",
    "CollectionConfig",
    "Notify",
    "Options",
    "Refused",
    "RuleConfig",
    "Watch",
    "Watched",
    "action_fault",
    "encode_watch",
    "parse_watch",
    "read_watch",
    "resolve",
    "to_watch",
]
