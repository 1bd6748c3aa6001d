"""Why something is told, or is not: the words for it in logs, metrics and ``tocsin status``."""

from __future__ import annotations

from enum import StrEnum


class Send(StrEnum):
    """Why it is done now."""

    FIRED = "fired"  # stop, metric: once for each time that a rule fires
    FIRST = "first_notification"
    NEW_IN_GROUP = "new_in_group"
    ALL_RESOLVED = "all_resolved"
    NEWLY_RESOLVED = "newly_resolved"
    REPEAT = "repeat_interval"
    STOP_GUARD = "stop_guard"
    SUMMARY = "summary"


class Hold(StrEnum):
    """Why it is not done now."""

    INHIBITED = "inhibited"
    SILENCED = "silenced"
    GROUP_WAIT = "group_wait"
    TOLD = "told_before"
