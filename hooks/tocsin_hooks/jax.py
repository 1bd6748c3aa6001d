"""The hook for JAX, and so for Flax, Equinox, Haiku and Optax: one call in the training loop."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tocsin.model import Mode, TensorSummary
from tocsin.tensors import Captured, Storage

from tocsin_hooks.capture import capture
from tocsin_hooks.guard import Guard, guarded
from tocsin_hooks.hook import Hook
from tocsin_hooks.memory import MOST_SAMPLED, Memory, Update, sample_stride
from tocsin_hooks.plan import CapturePlan

_BIASES = frozenset({"b", "beta", "bias"})

_Finish = Callable[[], "list[Captured]"]


class _Tensor(NamedTuple):
    """The properties of a tensor without its values. key: identifies it for updates."""

    key: str
    shape: tuple[int, ...]
    dtype: str
    time: float


class JaxHook:
    """Captures loss, gradients and parameters of a loop, step by step.

    A compiled function reduces each tensor on its device, and only the summary is copied to the
    host, in the background: the training does not wait, and donated buffers can be reused. Whole
    values are copied only if a rule or the watch file needs them.

    It never raises into the training. Its parameters are those of :class:`tocsin_hooks.Hook`. The
    attribute ``hook`` is that Hook, to save other tensors and to begin steps yourself.

    Example
    -------
    >>> hook = JaxHook("s3://bucket/jobs/j1")
    >>> for batch in batches:
    ...     params, state, loss, grads = train_step(params, state, batch)
    ...     hook.step(loss, gradients=grads, params=params)
    """

    def __init__(
        self, out: str | Path | Storage | None = None, watch: Any = None, **options: Any
    ) -> None:
        self.hook = Hook(out, watch, **options)
        self._memory = Memory()  # of the thread that finishes steps

    @guarded(attrgetter("hook.trouble"), "a step is not captured")
    def step(
        self,
        loss: Any = None,
        *,
        gradients: Any = None,
        params: Any = None,
        metrics: Mapping[str, Any] | None = None,
        learning_rate: Any = None,
        mode: Mode = Mode.TRAIN,
    ) -> None:
        """Capture a step if it is due to be saved. Call it outside of ``jit``, after the step.

        gradients, params: trees of arrays with the same structure; leaves that are not arrays are
        skipped. metrics: numbers by name.
        """
        with self.hook.step(mode):
            if not self.hook.saving:
                return
            values = [("loss", loss, "losses"), ("learning_rate", learning_rate, "learning_rates")]
            values += [(name, value, "metrics") for name, value in (metrics or {}).items()]
            for name, value, collection in values:
                if value is not None:
                    self._add(mode, name, value, collection)
            for name, leaf in leaves(gradients):
                self._add(mode, f"gradient/{name}", leaf, "gradients")
            for name, leaf in leaves(params):
                is_bias = name.rpartition("/")[2] in _BIASES
                self._add(mode, name, leaf, "biases" if is_bias else "weights")

    @property
    def should_stop(self) -> bool:
        """Return whether a stop was requested."""
        return self.hook.should_stop

    def close(self, *, finished: bool | None = None) -> None:
        """Write what is waiting and, if the training is ``finished``, the end marker."""
        self.hook.close(finished=finished)

    def _add(self, mode: Mode, name: str, value: Any, collection: str) -> None:
        with Guard(self.hook.trouble, "tensor %.200r is not captured", name):
            plan = self.hook.plan(name, collection, asked=True)
            if plan is None:
                return
            if not isinstance(value, jax.Array):
                self.hook.capture(plan, value)
                return
            value = _here(value)
            with self.hook.measured():
                finish, nbytes = self._captured(f"{mode.name}/{name}", plan, value)
            self.hook.put_later(lambda: [(plan, captured) for captured in finish()], nbytes)

    def _captured(self, key: str, plan: CapturePlan, value: jax.Array) -> tuple[_Finish, int]:
        """Return what finishes a tensor on the host, and the bytes that it will hold there."""
        wish, size = plan.wish, value.size
        whole = (
            plan.keeps(size, value.nbytes)
            or wish.details
            or plan.reductions
            or plan.shape
            or not size
            or not jnp.issubdtype(value.dtype, jnp.floating)
        )
        if whole:
            copy = jnp.copy(value)  # the training may give the buffer away
            copy.copy_to_host_async()
            return partial(self._of_values, key, plan, copy), value.nbytes
        stride = sample_stride(size) if wish.update else 0
        hashed = wish.fingerprint or (wish.update and size > MOST_SAMPLED)
        found = _reduced(value, stride, hashed)
        for part in found.values():
            part.copy_to_host_async()
        tensor = _Tensor(key, value.shape, str(value.dtype), time.time())
        nbytes = sum(part.nbytes for part in found.values())
        return partial(self._of_moments, plan, found, tensor), nbytes

    def _of_values(self, key: str, plan: CapturePlan, value: jax.Array) -> list[Captured]:
        def since(array: np.ndarray[Any, Any], fingerprint: str | None) -> Update:
            return self._memory.update(key, array, fingerprint)

        return capture(plan, np.asarray(value), since)

    def _of_moments(
        self, plan: CapturePlan, found: Mapping[str, jax.Array], tensor: _Tensor
    ) -> list[Captured]:
        parts = {name: np.asarray(part) for name, part in found.items()}
        hashed = parts.get("hash")
        digest = None
        if hashed is not None:
            digest = hashlib.blake2b(hashed.tobytes(), digest_size=16).hexdigest()
        update: Update = None, None
        if "sample" in parts:
            name, shape = plan.saved.name, tensor.shape
            update = self._memory.update_of_sample(name, parts["sample"], shape, digest)
        role, kind = plan.saved.place
        summary = _summary(
            math.prod(tensor.shape), parts["counts"], parts["moments"], update, digest
        )
        return [
            Captured(
                plan.saved.name,
                shape=tensor.shape,
                dtype=tensor.dtype,
                role=role,
                kind=kind,
                summary=summary,
                wall_time=tensor.time,
            )
        ]


def leaves(tree: Any) -> Iterator[tuple[str, Any]]:
    """Yield the arrays of a tree under their paths: ``params/Dense_0/kernel``."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if isinstance(leaf, jax.Array | np.ndarray):
            yield jax.tree_util.keystr(path, simple=True, separator="/") or "value", leaf


def _here(value: jax.Array) -> jax.Array:
    """The array, or of one that is replicated in several processes the copy in this one.

    Raises TypeError for a tracer, and for an array whose parts lie in several processes.
    """
    if isinstance(value, jax.core.Tracer):
        raise TypeError("call hook.step after the compiled step, not inside it")
    if value.is_fully_addressable:
        return value
    if value.is_fully_replicated:
        return value.addressable_data(0)
    raise TypeError("its parts lie in several processes: save what is addressable")


@partial(jax.jit, static_argnames=("stride", "hashed"))
def _reduced(value: jax.Array, stride: int, hashed: bool) -> dict[str, jax.Array]:
    """The moments of a tensor, over its finite elements divided by the largest magnitude.

    counts: NaN, +Inf, -Inf, zeros. moments: the largest magnitude, minimum, maximum, and means of
    x, |x|, x² and (x - mean)². sample: every ``stride``-th element. hash: 128 bits.
    """
    flat = value.reshape(-1)
    x = flat.astype(jnp.promote_types(value.dtype, jnp.float32))
    finite = jnp.isfinite(x)
    count = finite.sum()
    known = jnp.where(finite, x, 0)
    largest = jnp.abs(known).max()
    scaled = known / jnp.where(largest > 0, largest, 1)

    def mean(parts: jax.Array) -> jax.Array:
        return parts.sum() / jnp.maximum(count, 1)

    middle = mean(scaled)
    spread = jnp.where(finite, scaled - middle, 0)
    found = {
        "counts": jnp.stack(
            [jnp.isnan(x).sum(), jnp.isposinf(x).sum(), jnp.isneginf(x).sum(), (x == 0).sum()]
        ),
        "moments": jnp.stack(
            [
                largest,
                jnp.where(finite, x, jnp.inf).min(),
                jnp.where(finite, x, -jnp.inf).max(),
                middle,
                mean(jnp.abs(scaled)),
                mean(scaled * scaled),
                mean(spread * spread),
            ]
        ),
    }
    if stride:
        found["sample"] = x[::stride]
    if hashed:
        found["hash"] = _hash(flat)
    return found


def _hash(flat: jax.Array) -> jax.Array:
    """Four sums of the elements' bits, each mixed with its place: equal for equal contents."""
    bits = jax.lax.bitcast_convert_type(flat, jnp.dtype(f"uint{8 * flat.dtype.itemsize}"))
    words = [bits.astype(jnp.uint32)]
    if flat.dtype.itemsize == 8:
        words.append((bits >> 32).astype(jnp.uint32))
    place = jax.lax.iota(jnp.uint32, flat.size)
    sums = []
    for word in words:
        for seed in (0x9E3779B9, 0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2F):
            mixed = _mix(word ^ _mix(place ^ jnp.uint32(seed)))
            sums.append(mixed.sum(dtype=jnp.uint32))
    return jnp.stack(sums)


def _mix(word: jax.Array) -> jax.Array:
    """The end of MurmurHash3, which carries every bit into every other."""
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> 16)


def _summary(
    size: int,
    counts: np.ndarray[Any, Any],
    moments: np.ndarray[Any, Any],
    update: Update,
    digest: str | None,
) -> TensorSummary:
    """Return the summary of the results of ``_reduced``, in the host's precision."""
    nan, posinf, neginf, zeros = map(int, counts)
    count = size - nan - posinf - neginf
    largest, low, high, mean, abs_mean, square, variance = map(float, moments)
    if count == 0:
        return TensorSummary(size, nan, posinf, neginf, zeros, l1=0.0, l2=0.0, fingerprint=digest)
    return TensorSummary(
        size,
        nan,
        posinf,
        neginf,
        zeros,
        min=low,
        max=high,
        mean=mean * largest,
        abs_mean=abs_mean * largest,
        variance=_finite(variance * largest * largest),
        l1=_finite(abs_mean * largest * count),
        l2=_finite(math.sqrt(square * count) * largest),
        update_l1=update[0],
        update_l2=update[1],
        fingerprint=digest,
    )


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
