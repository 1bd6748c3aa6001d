"""LossSpike: a healthy training with one corrupt batch, and one without."""

from tocsin_hooks import Hook


def fires(run: str) -> None:
    """The batch of step 20 is corrupt."""
    train(run, corrupt=20)


def stays_quiet(run: str) -> None:
    train(run, corrupt=None)


def train(run: str, corrupt: int | None) -> None:
    """Returns a loss that falls from 2.3 to 0.3."""
    hook = Hook(run, save_interval=1)
    for step in range(30):
        with hook.step():
            loss = 40.0 if step == corrupt else 2.0 * 0.8**step + 0.3
            hook.save("loss", loss, "losses")
    hook.close()
