"""BrokenContract: what the hook saves of a call that cannot mean what it says."""

from tocsin.model import Role
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """A loss of predictions (64, 1) and labels (64), at line 31 of the training script."""
    train(run, broken=1.0)


def stays_quiet(run: str) -> None:
    """The same call with labels (64, 1): the contract holds."""
    train(run, broken=0.0)


def train(run: str, broken: float) -> None:
    hook = Hook(run, save_interval=1)
    with hook.step():
        hook.save("loss", 0.7, collection="losses")
        hook.save("contract/broadcast/train.py:31", broken, "contracts", role=Role.CONTRACT)
    hook.close()
