"""``judge=True`` in JAX."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from tocsin_hooks.jax import JaxHook

from tests.frameworks.judging import assert_judged


def test_findings_are_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    x = jax.random.normal(jax.random.key(0), (64, 4))
    graded = jax.jit(jax.value_and_grad(lambda w: jnp.mean((x @ w - x.sum(1)) ** 2)))
    weight = jnp.zeros(4)
    hook = JaxHook(tmp_path / "run", judge=True, save_interval=1)
    for _ in range(60):
        loss, gradient = graded(weight)
        hook.step(loss, params={"w": weight}, gradients={"w": gradient})
        weight = weight - 1e4 * gradient
    hook.close()
    assert_judged(tmp_path / "run", caplog)
