"""TreeDepth: trees that grow without a limit, and trees of six levels."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """max_depth is 0: nodes are split as long as they have two samples."""
    grow(run, max_depth=14)


def stays_quiet(run: str) -> None:
    """max_depth is 6, XGBoost's default."""
    grow(run, max_depth=6)


def grow(run: str, max_depth: int) -> None:
    """Writes an uneven tree: only the right child is split again, down to the limit."""
    inner = 2 * np.arange(max_depth)
    nodes = np.arange(2 * max_depth + 1)
    hook = Hook(run, save_interval=1)
    for tree in range(3):
        columns = {
            "Node": nodes,
            "ID": [f"{tree}-{node}" for node in nodes],
            "Yes": [f"{tree}-{node + 1}" if node in inner else "nan" for node in nodes],
            "No": [f"{tree}-{node + 2}" if node in inner else "nan" for node in nodes],
        }
        with hook.step():
            for column, values in columns.items():
                hook.save(f"trees/{column}", values, collection="trees", raw=True)
    hook.close()
