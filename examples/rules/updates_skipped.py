"""UpdatesSkipped: a guard that skipped one update of a hundred, and one that skipped none."""

from tocsin_hooks import Hook


def fires(run: str) -> None:
    """The batch of step 50 contains NaN."""
    train(run, poisoned=50)


def stays_quiet(run: str) -> None:
    train(run, poisoned=None)


def train(run: str, poisoned: int | None) -> None:
    """Writes the counts that ``TorchHook.attach(model, run, guard=True)`` keeps."""
    hook = Hook(run, save_interval=10)
    skipped = 0
    for step in range(100):
        with hook.step():
            skipped += step == poisoned
            hook.save("updates/skipped", float(skipped), "updates", kind="skipped")
            hook.save("updates/all", step + 1.0, "updates", kind="all")
    hook.close()
