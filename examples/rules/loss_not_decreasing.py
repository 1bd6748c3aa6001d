"""LossNotDecreasing: a loss that stays at its first value, and one that falls and levels off."""

from tocsin_hooks import Hook


def fires(run: str) -> None:
    """Nothing is learned: 2.3 is the loss of guessing among ten classes."""
    train(run, lowest=2.3)


def stays_quiet(run: str) -> None:
    """The loss falls to 0.4 and stays there."""
    train(run, lowest=0.4)


def train(run: str, lowest: float) -> None:
    """Writes a loss that starts at 2.3 and approaches ``lowest``."""
    hook = Hook(run, save_interval=10)
    for step in range(400):
        with hook.step():
            hook.save("loss", lowest + (2.3 - lowest) * 0.98**step, "losses")
    hook.close()
