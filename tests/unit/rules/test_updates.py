from __future__ import annotations

import pytest
from tocsin.model import Mode, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.gradients._updates import latest_update, missing_inputs, total_loss

NAN, INF = float("nan"), float("inf")


def weight(
    name: str,
    size: float | None,
    moved: float | None,
    before: float | None = None,
    worker: str = "worker_0",
) -> Tensor:
    past = () if before is None else (Tensor(name, worker, TensorSummary(l2=before)),)
    return Tensor(name, worker, TensorSummary(l2=size, update_l2=moved), previous=past)


def gradient(norm: float | None, worker: str = "worker_0", name: str = "") -> Tensor:
    return Tensor(name or f"g{norm}", worker, TensorSummary(l2=norm))


def step(*weights: Tensor, gradients: tuple[Tensor, ...] = (), at: int = 10) -> Step:
    found = {"weights": weights, "gradients": gradients, "losses": ()}
    return Step(at, Mode.TRAIN, at, 0.0, found)


def test_weights_without_a_gradient_are_not_trained() -> None:
    """An average of the weights changes in another way, and no optimizer holds it."""
    weights = weight("a", 1.0, 0.1), weight("b.average", 1.0, 1e-5), weight("c.average", 1.0, 1e-5)
    update = latest_update(step(*weights, gradients=(gradient(6.0, name="gradient/a"),)), 9)
    assert update is not None
    assert (update.relative, update.weight.name) == (0.1, "a")


def test_gradients_without_their_weights_count_together() -> None:
    weights = weight("a", 3.0, 0.3), weight("b", 4.0, 0.4)
    update = latest_update(step(*weights, gradients=(gradient(6.0), gradient(8.0))), 6)
    assert update is not None
    assert update.effect == pytest.approx(10 * 0.5)
    assert update.reach == pytest.approx(10 * 5)


def test_the_first_worker_stands_for_all() -> None:
    weights = weight("a", 1.0, 0.5), weight("a", 9.0, 9.0, worker="worker_1")
    update = latest_update(step(*weights, gradients=(gradient(1.0), gradient(7.0, "worker_1"))), 9)
    assert update is not None
    assert (update.reach, update.weight.worker) == (1.0, "worker_0")


@pytest.mark.parametrize(("loss", "expected"), [(2.0, 0.25), (-2.0, 0.25), (0.0, INF)])
def test_gain_is_a_part_of_the_loss(loss: float, expected: float) -> None:
    update = latest_update(step(weight("a", 1.0, 0.5), gradients=(gradient(10.0),)), 0)
    assert update is not None
    assert update.gain(loss, update.steps) == expected


def test_losses_add_up() -> None:
    means = {"a": 1.0, "b": 2.0}
    losses = tuple(Tensor(n, "worker_0", TensorSummary(mean=mean)) for n, mean in means.items())
    assert total_loss(Step(0, Mode.TRAIN, 0, 0.0, {"losses": losses})) == 3.0
    assert total_loss(Step(0, Mode.TRAIN, 0, 0.0, {"losses": ()})) is None
    multiple = (Tensor("objective", "worker_0", TensorSummary(mean=30.0)),)
    both = {"losses": losses, "objectives": multiple}
    assert total_loss(Step(0, Mode.TRAIN, 0, 0.0, both)) == 30.0


def test_what_a_step_lacks() -> None:
    assert missing_inputs(step(weight("a", 1.0, 0.5))) == "no gradients and no losses"
    assert missing_inputs(Step(0, Mode.PREDICT, 0, 0.0)) == "a step of mode PREDICT"
    nothing = "no weights and no gradients and no losses"
    assert missing_inputs(Step(0, Mode.GLOBAL, 0, 0.0)) == nothing
