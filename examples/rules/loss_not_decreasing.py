"""LossNotDecreasing: a loss that stays where it began, and one that falls and levels off."""

from tocsin_hooks import Hook


def fires(run: str) -> None:
    """Nothing is learned: 2.3 is what guessing among ten classes costs."""
    train(run, lowest=2.3)


def stays_quiet(run: str) -> None:
    """Falls to 0.4 and stays there."""
    train(run, lowest=0.4)


def train(run: str, lowest: float) -> None:
    """A loss that starts at 2.3 and approaches ``lowest``."""
    hook = Hook(run, save_interval=10)
    for step in range(400):
        with hook.step():
            hook.save("loss", lowest + (2.3 - lowest) * 0.98**step, "losses")
    hook.close()
