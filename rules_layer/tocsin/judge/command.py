"""The command that ``--on-stop`` runs where a rule asks for a stop: ``scancel $SLURM_JOB_ID``."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from tocsin.words import clean

_SECONDS = 60.0
_PLACEHOLDER = "{checkpoint}"
_CHECKPOINT = "TOCSIN_CHECKPOINT"


@dataclass
class StopCommand:
    """Runs a command in a shell until it has succeeded once.

    The command is the terminal's own, never a run's. What comes from the run is in the variables
    TOCSIN_RUN, TOCSIN_RULE and TOCSIN_CHECKPOINT only, which the shell does not evaluate:
    ``{checkpoint}`` in the command is the last of them, as one argument.

    say: gets a line with the outcome.
    """

    command: str
    run: str
    say: Callable[[str], object]
    seconds: float = _SECONDS
    done: bool = False

    def __call__(self, rule: str, checkpoint: str | None = None) -> None:
        """Run the command for the rule that asks for the stop.

        checkpoint: the last one before the first sign of the fault. A command with the placeholder
            does not run without one.
        """
        if self.done:
            return None
        if _PLACEHOLDER in self.command and not _is_usable(checkpoint):
            return self._failed(
                f"no model checkpoint before the first sign of the fault for "
                f"{_PLACEHOLDER}: call hook.checkpoint(path) after each save"
            )
        given = {**os.environ, "TOCSIN_RUN": self.run, "TOCSIN_RULE": clean(rule)}
        given[_CHECKPOINT] = checkpoint or ""
        try:
            ran = subprocess.run(  # noqa: S602 - who typed it wants a shell
                self.command.replace(_PLACEHOLDER, f'"${_CHECKPOINT}"'),
                shell=True,
                env=given,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=self.seconds,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return self._failed(str(error))
        if ran.returncode:
            return self._failed(f"exit code {ran.returncode}: {ran.stdout}")
        self.done = True
        self.say(f"{rule}: ran {self.command}")
        return None

    def _failed(self, why: str) -> None:
        self.say(f"--on-stop failed: {clean(why, 300)}. It runs again when a rule asks for a stop")


def _is_usable(checkpoint: str | None) -> bool:
    """Return whether it is a path that no command takes for an option."""
    return bool(checkpoint) and not str(checkpoint).startswith("-")
