"""The cost of ``tocsin check`` on a history: CPU time for each step of eight series.

    python -m benchmarks.histories [--rows 5000]

A table of two losses of training, one of evaluations, two accuracies, a learning rate, a gradient
norm and a step time is written, read, and judged by the rules that watch such a history. Two
processes judge more than 20,000 rows; the CPU time is that of the first.
"""

from __future__ import annotations

import argparse
import math
import platform
import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tocsin.evaluation import check, watch_of_history
from tocsin.evaluation.halves import check_in_halves, has_halves
from tocsin.histories import as_run, reader_of

COLUMNS = (
    "step,train/loss,val/loss,train/accuracy,val/accuracy,lr,grad_norm,step_time,train/aux_loss"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5000)
    rows = parser.parse_args().rows
    print(f"{platform.machine()}, Python {platform.python_version()}")
    with TemporaryDirectory() as folder:
        table = Path(folder) / "history.csv"
        table.write_text(history(rows))
        begun, clock = time.process_time(), time.monotonic()
        reader = reader_of(table)
        assert reader is not None
        run = as_run(reader, print, configure=watch_of_history)
        read = time.process_time()
        if has_halves(run, rows):
            check_in_halves(run, lambda _: None)
        else:
            check(run)
        judged = time.process_time()
    print(f"{time.monotonic() - clock:.1f} s by the clock")
    for what, seconds in (("read", read - begun), ("judged", judged - read)):
        print(f"{what:7}{seconds / rows * 1e3:6.3f} ms of CPU a step, {seconds:6.1f} s in all")


def history(rows: int) -> str:
    """A table of a training that learns, with noise."""
    random = Random(1)
    lines = [COLUMNS]
    for at in range(rows):
        loss = 2 * math.exp(-5 * at / rows) + 0.3 + random.gauss(0, 0.05)
        held_out = loss + 0.1 + random.gauss(0, 0.05)
        numbers = (
            *(loss, held_out, 1 - loss / 3, 0.95 - loss / 3, 1e-3 * (1 - at / rows)),
            *(1 + random.random(), 0.1 + random.random() / 100, loss / 2),
        )
        lines.append(",".join((str(at), *(f"{number:.6g}" for number in numbers))))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
