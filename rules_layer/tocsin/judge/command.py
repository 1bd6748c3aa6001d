"""The command that ``--on-stop`` runs where a rule asks for a stop: ``scancel $SLURM_JOB_ID``."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from tocsin.words import clean

_SECONDS = 60.0


@dataclass
class StopCommand:
    """Runs a command in a shell until it has succeeded once.

    The command is the terminal's own, never a run's. What comes from the run is in the variables
    TOCSIN_RUN and TOCSIN_RULE only, which the shell does not evaluate.

    say: gets a line with the outcome.
    """

    command: str
    run: str
    say: Callable[[str], object]
    seconds: float = _SECONDS
    done: bool = False

    def __call__(self, rule: str) -> None:
        """Run the command for the rule that asks for the stop."""
        if self.done:
            return None
        given = {**os.environ, "TOCSIN_RUN": self.run, "TOCSIN_RULE": clean(rule)}
        try:
            ran = subprocess.run(  # noqa: S602 - who typed it wants a shell
                self.command,
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
