"""Underfitting: losses that do not fall, and losses that fall before they level off."""

from tocsin_hooks import Hook, modes


def fires(run: str) -> None:
    """The loss stays at about 2.30, the loss of guessing among ten classes."""
    train(run, [2.31, 2.30, 2.29, 2.30] * 7)


def stays_quiet(run: str) -> None:
    """The loss falls to 1.2 and stays there."""
    train(run, [2.31, 2.1, 1.8, 1.5] + [1.2] * 24)


def train(run: str, losses: list[float]) -> None:
    """Writes twenty steps of training for every loss, and an evaluation of one step."""
    hook = Hook(run, save_interval={"TRAIN": 20, "EVAL": 1})
    for loss in losses:
        for _ in range(20):
            with hook.step(modes.TRAIN):
                hook.save("loss", loss, "losses")
        with hook.step(modes.EVAL):
            hook.save("loss", loss + 0.02, "losses")
    hook.close()
