"""LossDiverging: gradient descent on a parabola, with too large a step and with a good one."""

from tocsin_hooks import Hook


def fires(run: str) -> None:
    """Each step overshoots the minimum by more than the last one."""
    descend(run, learning_rate=1.1)


def stays_quiet(run: str) -> None:
    """Each step gets closer to the minimum."""
    descend(run, learning_rate=0.1)


def descend(run: str, learning_rate: float) -> None:
    """Minimises x², whose slope is 2x."""
    hook = Hook(run, save_interval=1)
    x = 3.0
    for _ in range(40):
        with hook.step():
            hook.save("loss", x * x, "losses")
        x -= learning_rate * 2 * x
    hook.close()
