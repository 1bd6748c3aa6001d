"""Events as ``act`` receives them: their fields, and the limits of those."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

from tocsin.events.types import (
    RUN_NEWS,
    RUN_SUMMARY,
    SOURCE,
    STATUS_CHANGE,
    RunNews,
    RunSummary,
    StatusChange,
)


class BadEvent(ValueError):
    """The message is not an event that ``act`` handles; the text says which field is wrong."""


class _Envelope(msgspec.Struct, frozen=True, rename={"detail_type": "detail-type"}):
    detail_type: str
    source: str
    detail: msgspec.Raw


_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
_Step = Annotated[int, msgspec.Meta(ge=0, lt=10**18)]


class _OfRun(msgspec.Struct, frozen=True, rename="pascal"):
    run: Annotated[
        str,
        msgspec.Meta(
            max_length=1100,
            pattern=r"\As3://[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9](/[^\x00-\x1f\x7f]+)?\Z",
        ),
    ]


class _Bounds(_OfRun, frozen=True, rename="pascal", kw_only=True):
    """Limits of fields that become part of an address or a key. Other texts are cleaned later."""

    training_job_name: Annotated[
        str, msgspec.Meta(max_length=1024, pattern=r"\A[^\x00-\x1f\x7f/]+\Z")
    ]
    dedup_id: _Name
    rule_configuration_name: _Name = "-"
    rule: _Name = "-"
    step: _Step | None = None
    mode_step: _Step | None = None
    sequence: Annotated[int, msgspec.Meta(ge=0)] = 0


class _EntryBounds(msgspec.Struct, frozen=True, rename="pascal"):
    rule_configuration_name: _Name


class _SummaryBounds(_Bounds, frozen=True, rename="pascal"):
    debug_rule_evaluation_statuses: tuple[_EntryBounds, ...] = ()


class _NewsBounds(_Bounds, frozen=True, rename="pascal"):
    changes: tuple[_Bounds, ...] = ()
    summaries: tuple[_SummaryBounds, ...] = ()


_Decoder: TypeAlias = msgspec.json.Decoder[Any]
_envelope = msgspec.json.Decoder(_Envelope)
_of_run = msgspec.json.Decoder(_OfRun)
_bounds = msgspec.json.Decoder(_Bounds)
_details: dict[tuple[str, str], tuple[_Decoder, _Decoder]] = {
    (SOURCE, STATUS_CHANGE): (_bounds, msgspec.json.Decoder(StatusChange)),
    (SOURCE, RUN_SUMMARY): (
        msgspec.json.Decoder(_SummaryBounds),
        msgspec.json.Decoder(RunSummary),
    ),
    (SOURCE, RUN_NEWS): (msgspec.json.Decoder(_NewsBounds), msgspec.json.Decoder(RunNews)),
}


def decode(body: str | bytes) -> StatusChange | RunSummary | RunNews:
    """Return the event in EventBridge's envelope ``body``. Raises BadEvent for any other event."""
    try:
        envelope = _envelope.decode(body)
        decoders = _details.get((envelope.source, envelope.detail_type))
        if decoders is None:
            raise BadEvent(
                f"not an event for `act`: {envelope.detail_type!r:.100} of {envelope.source!r:.100}"
            )
        bounds, details = decoders
        bounds.decode(envelope.detail)
        event: StatusChange | RunSummary | RunNews = details.decode(envelope.detail)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadEvent(f"not a Tocsin event: {error}") from None
    return event


def run_of(body: str | bytes) -> str:
    """Return the run that an event of ours is about, of whatever type. Raises BadEvent."""
    try:
        envelope = _envelope.decode(body)
        run = _of_run.decode(envelope.detail).run
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadEvent(f"not a Tocsin event: {error}") from None
    if envelope.source != SOURCE:
        raise BadEvent(f"not a Tocsin event: it is of {envelope.source!r:.100}")
    return run


def checked(change: StatusChange) -> StatusChange:
    """Return the change, if ``decode`` would take it. Raises BadEvent."""
    try:
        _bounds.decode(msgspec.json.encode(change))
    except msgspec.DecodeError as error:
        raise BadEvent(f"not a Tocsin event: {error}") from None
    return change
