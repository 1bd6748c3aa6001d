"""Overtraining: a training that should have ended at epoch 5, and one that has converged."""

from tocsin_hooks import Hook, modes


def fires(run: str) -> None:
    """The validation loss falls to 0.5, rises to 0.8 and stays there."""
    train(run, [1.5, 1.0, 0.8, 0.6, 0.5, 0.5, 0.6, 0.7] + [0.8] * 8)


def stays_quiet(run: str) -> None:
    """The validation loss falls to 0.5 and stays there."""
    train(run, [1.5, 1.0, 0.8, 0.6] + [0.5, 0.51] * 6)


def train(run: str, validation: list[float]) -> None:
    """Writes epochs of two training steps and one evaluation."""
    hook = Hook(run, save_interval=1)
    for loss in validation:
        for _ in range(2):
            with hook.step(modes.TRAIN):
                hook.save("loss", 0.4, "losses")
        with hook.step(modes.EVAL):
            hook.save("loss", loss, "losses")
    with hook.step(modes.TRAIN):  # shows that the last evaluation is over
        hook.save("loss", 0.4, "losses")
    hook.close()
