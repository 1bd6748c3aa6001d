"""UnchangedTensor: a loss that does not change, and one that falls."""

from tocsin_hooks import Hook

RULE = {"rule": "UnchangedTensor", "parameters": {"collection_names": "losses", "num_steps": 5}}


def fires(run: str) -> None:
    """The optimizer does not step, and the batch is always the same."""
    train(run, rate=0.0)


def stays_quiet(run: str) -> None:
    """The loss falls by a tenth from step to step."""
    train(run, rate=0.1)


def train(run: str, rate: float) -> None:
    loss = 0.7
    hook = Hook(run, save_interval=1)
    for _ in range(10):
        with hook.step():
            hook.save("loss", loss, collection="losses")
        loss = (1 - rate) * loss
    hook.close()
