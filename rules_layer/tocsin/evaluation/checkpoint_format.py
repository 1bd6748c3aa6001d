"""The bytes of a checkpoint: compressed JSON with a version and a limit."""

from __future__ import annotations

import zlib

import msgspec
from msgspec.structs import replace

from tocsin.evaluation.checkpoint import Checkpoint
from tocsin.evaluation.upgrade import VERSION, upgraded, without_references
from tocsin.model import RuleStatus

MOST_BYTES = 64 << 20  # decompressed; the state caps keep real ones far below


class _Version(msgspec.Struct):
    version: int = 1


_decoder = msgspec.json.Decoder(Checkpoint)
_version = msgspec.json.Decoder(_Version)

# Errors of the conversion of an earlier version, which comes before its types are checked.
_WRONG_SHAPE = (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError)


class CheckpointTooLarge(ValueError):
    """A checkpoint that is over the limit that reading has."""


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Encode a checkpoint.

    Raises CheckpointTooLarge for one that could not be read again.
    """
    content = msgspec.json.encode(checkpoint)
    if len(content) >= MOST_BYTES:
        raise CheckpointTooLarge(f"checkpoint of {len(content)} bytes, of at most {MOST_BYTES}")
    return zlib.compress(content, level=1)


def smaller(checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint without points; then without the half of its references that is oldest;
    at last without the largest state of a rule.

    Raises CheckpointTooLarge for one that holds none of these.
    """
    if checkpoint.points:
        return replace(checkpoint, points=())
    newest_first = sorted(checkpoint.references.items(), key=lambda each: -each[1][0].step)
    if newest_first:
        return replace(checkpoint, references=dict(newest_first[: len(newest_first) // 2]))
    name, record = max(
        checkpoint.rules.items(), key=lambda each: len(msgspec.json.encode(each[1].state))
    )
    if not record.state:
        raise CheckpointTooLarge(f"the checkpoint of {checkpoint.run} cannot be made any smaller")
    fired = record.status is RuleStatus.ISSUES_FOUND
    stopped = replace(
        record,
        state={},
        disabled=True,
        status=record.status if fired else RuleStatus.ERROR,
        details="the rules of this run need more state than fits, and this one needs the most",
    )
    return replace(checkpoint, rules={**checkpoint.rules, name: stopped})


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Decode a checkpoint of this version or the one before.

    A version gets a new number when a field changes its meaning, not when one is added: unknown
    fields are left out. Raises ValueError for anything else.
    """
    inflate = zlib.decompressobj()
    try:
        content = inflate.decompress(data, MOST_BYTES)
        version = _version.decode(content).version
        if version > VERSION:
            raise ValueError(
                f"it has version {version}, but this code reads up to version {VERSION}"
            )
        if version < VERSION:
            content = msgspec.json.encode(upgraded(msgspec.json.decode(content)))
        try:
            return _decoder.decode(content)
        except msgspec.ValidationError:
            return _decoder.decode(without_references(content))
    except (zlib.error, msgspec.DecodeError, *_WRONG_SHAPE) as error:
        raise ValueError(f"not a checkpoint: {error}") from error
