"""The bytes of a run: event, index and collections files, their layout, reader and writer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tocsin.tensors._arrays import as_array, content_bytes
from tocsin.tensors._bfloat16 import BFLOAT16, from_bfloat16, to_bfloat16
from tocsin.tensors._collections import (
    BadCollections,
    Collection,
    Collections,
    decode_collections,
    encode_collections,
    read_collections,
)
from tocsin.tensors._completeness import complete_steps
from tocsin.tensors._detail import answers, detailed
from tocsin.tensors._dtypes import itemsize
from tocsin.tensors._encoding import encode_record
from tocsin.tensors._end import End, read_end
from tocsin.tensors._event import Record, Unreadable, decode_record, frames
from tocsin.tensors._fingerprint import (
    FINGERPRINT_SMALL,
    fingerprint_of_sums,
    fingerprint_weights,
)
from tocsin.tensors._index import (
    BadIndex,
    Entry,
    IndexFile,
    RunMeta,
    decode_index,
    encode_index,
    index_at,
    index_objects,
    read_index,
)
from tocsin.tensors._layout import (
    COLLECTIONS,
    END_MARKER,
    INDEX,
    STOP,
    WATCH,
    after_step,
    collections_key,
    event_key,
    index_key,
    job_name,
    parse_collections_key,
    parse_index_key,
    split_key,
)
from tocsin.tensors._local import LocalStorage
from tocsin.tensors._naming import collected, named
from tocsin.tensors._patterns import BadPattern, search
from tocsin.tensors._reductions import (
    REDUCTIONS,
    base_name,
    parse_reduction,
    reduced,
    reduction_name,
)
from tocsin.tensors._regular import open_regular
from tocsin.tensors._run import NotARun, Run
from tocsin.tensors._starts import Starts, Written, starts_of
from tocsin.tensors._storage import (
    NotAFile,
    NotFound,
    Object,
    RefusedFile,
    Storage,
    TooLarge,
    Truncated,
    open_storage,
)
from tocsin.tensors._summary import summarize, update_norms
from tocsin.tensors._tensorboard import export_tensorboard
from tocsin.tensors._values import Value, read_values
from tocsin.tensors._writer import Captured, RunWriter, write_step

if TYPE_CHECKING:
    from tocsin.tensors._s3 import S3Storage

__all__ = [
    "BFLOAT16",
    "COLLECTIONS",
    "END_MARKER",
    "FINGERPRINT_SMALL",
    "INDEX",
    "REDUCTIONS",
    "STOP",
    "WATCH",
    "BadCollections",
    "BadIndex",
    "BadPattern",
    "Captured",
    "Collection",
    "Collections",
    "End",
    "Entry",
    "IndexFile",
    "LocalStorage",
    "NotAFile",
    "NotARun",
    "NotFound",
    "Object",
    "Record",
    "RefusedFile",
    "Run",
    "RunMeta",
    "RunWriter",
    "S3Storage",
    "Starts",
    "Storage",
    "TooLarge",
    "Truncated",
    "Unreadable",
    "Value",
    "Written",
    "after_step",
    "answers",
    "as_array",
    "base_name",
    "collected",
    "collections_key",
    "complete_steps",
    "content_bytes",
    "decode_collections",
    "decode_index",
    "decode_record",
    "detailed",
    "encode_collections",
    "encode_index",
    "encode_record",
    "event_key",
    "export_tensorboard",
    "fingerprint_of_sums",
    "fingerprint_weights",
    "frames",
    "from_bfloat16",
    "index_at",
    "index_key",
    "index_objects",
    "itemsize",
    "job_name",
    "named",
    "open_regular",
    "open_storage",
    "parse_collections_key",
    "parse_index_key",
    "parse_reduction",
    "read_collections",
    "read_end",
    "read_index",
    "read_values",
    "reduced",
    "reduction_name",
    "search",
    "split_key",
    "starts_of",
    "summarize",
    "to_bfloat16",
    "update_norms",
    "write_step",
]


def __getattr__(name: str) -> Any:
    """S3Storage is fetched when asked for: a training process need not load boto3."""
    if name == "S3Storage":
        from tocsin.tensors._s3 import S3Storage

        return S3Storage
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
