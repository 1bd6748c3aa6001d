"""The bytes of a run: event, index and collections files, their layout, reader and writer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tocsin.tensors.arrays import as_array, content_bytes
from tocsin.tensors.bfloat16 import BFLOAT16, from_bfloat16, to_bfloat16
from tocsin.tensors.collections import (
    BadCollections,
    Collection,
    Collections,
    decode_collections,
    encode_collections,
    read_collections,
)
from tocsin.tensors.completeness import complete_steps, settled_workers
from tocsin.tensors.detail import answers, detailed, with_details, without_details
from tocsin.tensors.dtypes import itemsize
from tocsin.tensors.encoding import encode_record
from tocsin.tensors.end import End, encode_end, read_end
from tocsin.tensors.event import Record, Unreadable, decode_record, frames
from tocsin.tensors.fetching import Fetched, FetchedValue, RecordToRead, ValueKey, fetch
from tocsin.tensors.fingerprint import (
    FINGERPRINT_SMALL,
    fingerprint_of_sums,
    fingerprint_weights,
)
from tocsin.tensors.in_parallel import in_parallel
from tocsin.tensors.index import (
    BadIndex,
    Entry,
    IndexFile,
    RunMeta,
    SavedCheckpoint,
    decode_index,
    encode_index,
)
from tocsin.tensors.index_listing import index_at, index_objects, read_index
from tocsin.tensors.inline import encode_inline, inline_value
from tocsin.tensors.joining import joined_summary
from tocsin.tensors.layout import (
    COLLECTIONS,
    END_MARKER,
    INDEX,
    PACE,
    STOP,
    TRACE,
    WATCH,
    after_step,
    collections_key,
    event_key,
    has_more_digits,
    index_key,
    is_machine_run,
    is_same_run,
    job_name,
    machine_run,
    parse_collections_key,
    parse_index_key,
    split_key,
    step_text,
    writes_to,
)
from tocsin.tensors.local import LocalStorage
from tocsin.tensors.memory import MemoryStorage
from tocsin.tensors.naming import collected, named, place
from tocsin.tensors.opening import open_storage
from tocsin.tensors.patterns import BadPattern, search
from tocsin.tensors.records import RecordReader, checked
from tocsin.tensors.reductions import (
    REDUCTIONS,
    SUMMARY_REDUCTIONS,
    base_name,
    parse_reduction,
    reduced,
    reduction_name,
    summary_of,
)
from tocsin.tensors.regular import open_regular
from tocsin.tensors.scalars import BrokenOff, EventScalar, event_scalars, is_event_file
from tocsin.tensors.starts import (
    Starts,
    Written,
    first_of_start,
    is_older,
    places_before,
    starts_of,
)
from tocsin.tensors.step_trace import (
    MOST_TRACE_BYTES,
    MOST_TRACED_STEPS,
    TRACE_ANSWER,
    TRACES,
    TraceAnswer,
    TraceRequest,
    decode_trace_answer,
    decode_trace_request,
    trace_key,
    traces_of,
)
from tocsin.tensors.storage import (
    NotAFile,
    NotFound,
    Object,
    RefusedFile,
    Storage,
    TooLarge,
    Truncated,
)
from tocsin.tensors.summary import completed, summarize, update_norms
from tocsin.tensors.tensorboard import append_text, export_tensorboard
from tocsin.tensors.values import Value, read_values
from tocsin.tensors.writer import Captured, RunWriter, write_step

if TYPE_CHECKING:
    from tocsin.tensors.s3 import S3Storage

__all__ = [
    "BFLOAT16",
    "COLLECTIONS",
    "END_MARKER",
    "FINGERPRINT_SMALL",
    "INDEX",
    "MOST_TRACED_STEPS",
    "MOST_TRACE_BYTES",
    "PACE",
    "REDUCTIONS",
    "STOP",
    "SUMMARY_REDUCTIONS",
    "TRACE",
    "TRACES",
    "TRACE_ANSWER",
    "WATCH",
    "BadCollections",
    "BadIndex",
    "BadPattern",
    "BrokenOff",
    "Captured",
    "Collection",
    "Collections",
    "End",
    "Entry",
    "EventScalar",
    "Fetched",
    "FetchedValue",
    "IndexFile",
    "LocalStorage",
    "MemoryStorage",
    "NotAFile",
    "NotFound",
    "Object",
    "Record",
    "RecordReader",
    "RecordToRead",
    "RefusedFile",
    "RunMeta",
    "RunWriter",
    "S3Storage",
    "SavedCheckpoint",
    "Starts",
    "Storage",
    "TooLarge",
    "TraceAnswer",
    "TraceRequest",
    "Truncated",
    "Unreadable",
    "Value",
    "ValueKey",
    "Written",
    "after_step",
    "answers",
    "append_text",
    "as_array",
    "base_name",
    "checked",
    "collected",
    "collections_key",
    "complete_steps",
    "completed",
    "content_bytes",
    "decode_collections",
    "decode_index",
    "decode_record",
    "decode_trace_answer",
    "decode_trace_request",
    "detailed",
    "encode_collections",
    "encode_end",
    "encode_index",
    "encode_inline",
    "encode_record",
    "event_key",
    "event_scalars",
    "export_tensorboard",
    "fetch",
    "fingerprint_of_sums",
    "fingerprint_weights",
    "first_of_start",
    "frames",
    "from_bfloat16",
    "has_more_digits",
    "in_parallel",
    "index_at",
    "index_key",
    "index_objects",
    "inline_value",
    "is_event_file",
    "is_machine_run",
    "is_older",
    "is_same_run",
    "itemsize",
    "job_name",
    "joined_summary",
    "machine_run",
    "named",
    "open_regular",
    "open_storage",
    "parse_collections_key",
    "parse_index_key",
    "parse_reduction",
    "place",
    "places_before",
    "read_collections",
    "read_end",
    "read_index",
    "read_values",
    "reduced",
    "reduction_name",
    "search",
    "settled_workers",
    "split_key",
    "starts_of",
    "step_text",
    "summarize",
    "summary_of",
    "to_bfloat16",
    "trace_key",
    "traces_of",
    "update_norms",
    "with_details",
    "without_details",
    "write_step",
    "writes_to",
]


def __getattr__(name: str) -> Any:
    """S3Storage is fetched when asked for: a training process need not load boto3."""
    if name == "S3Storage":
        from tocsin.tensors.s3 import S3Storage

        return S3Storage
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
