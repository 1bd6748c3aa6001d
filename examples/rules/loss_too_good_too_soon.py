"""LossTooGoodTooSoon: a thousand classes learned within 50 steps, and within many more."""

from tocsin_hooks import Hook

RULE = {"rule": "LossTooGoodTooSoon", "parameters": {"steps": 100, "percent": 1.0}}


def fires(run: str) -> None:
    """The label is among the inputs, so there is nothing to learn."""
    train(run, keeps=0.4)


def stays_quiet(run: str) -> None:
    """The loss is a sixth of the first loss after 100 steps."""
    train(run, keeps=0.84)


def train(run: str, keeps: float) -> None:
    """Writes a loss that keeps this share of its value every ten steps."""
    hook = Hook(run, save_interval=10)
    for step in range(300):
        with hook.step():
            hook.save("loss", 6.9 * keeps ** (step / 10), "losses")
    hook.close()
