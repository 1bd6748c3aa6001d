"""Index files as columns."""

from __future__ import annotations

import pytest
from tocsin.model import Mode, TensorSummary
from tocsin.tensors import Entry, IndexFile, reduction_name
from tocsin.trial.table import SMALL, Places, Tables

K = 1024


def _index(*entries, step=0):
    return IndexFile(
        step, "worker_0", Mode.TRAIN, step, "events/0/0_worker_0.tfevents", None, entries
    )


@pytest.mark.parametrize(
    ("places", "blocks"),
    [
        ([], []),
        ([(0, 100)], [(0, 100)]),
        ([(0, 100), (100, 50)], [(0, 150), (0, 150)]),
        ([(100, 50), (0, 100)], [(0, 150), (0, 150)]),  # in whatever order
        ([(0, 100), (0, 100)], [(0, 100), (0, 100)]),  # one record, named twice
        ([(0, 100), (50, 10)], [(0, 100), (0, 100)]),  # overlapping
        ([(0, 100), (-1, 0), (100, 50)], [(0, 150), (-1, 0), (0, 150)]),  # one without a record
        ([(0, 100), (100 + 64 * K, 50)], [(0, 150 + 64 * K)] * 2),  # a gap that is read over
        ([(0, 100), (101 + 64 * K, 50)], [(0, 100), (101 + 64 * K, 50)]),  # and one that is not
        ([(0, SMALL), (SMALL, SMALL + 1)], [(0, SMALL), (SMALL, SMALL + 1)]),
        (
            [(0, 10), (10, SMALL + 1), (SMALL + 11, 10)],
            [(0, 10), (10, SMALL + 1), (SMALL + 11, 10)],
        ),
        (
            [(n * SMALL, SMALL) for n in range(6)],
            [(0, 4 * SMALL)] * 4 + [(4 * SMALL, 2 * SMALL)] * 2,
        ),
    ],
)
def test_blocks(places, blocks):
    starts, lengths = [p[0] for p in places], [p[1] for p in places]
    assert Places(starts, lengths).blocks == blocks


def test_members():
    index = _index(
        Entry("w", 0, 10, shape=(3,)),
        Entry(reduction_name("mean", "w"), 10, 10),
        Entry(reduction_name("abs_mean", "w"), 20, 10),
        Entry(reduction_name("l2", "gone"), 30, 10),
        Entry("s", shape=(2, 2), original_name="kernel:0"),
        Entry("smdebug/reductions/strange", 40, 10),
    )
    file = Tables().step_file(index)
    members = file.layout.members
    assert list(members) == ["w", "s", "smdebug/reductions/strange", "gone"]
    assert (members["w"].position, members["gone"].position) == (0, None)
    assert members["w"].reductions == {("mean", False): 1, ("mean", True): 2}
    assert members["gone"].reductions == {("l2", False): 3}
    recorded = [name for name in members if file.has_record(members[name].position)]
    assert recorded == ["w", "smdebug/reductions/strange"]
    assert (file.shape(0), file.shape(1), file.shape(None)) == ((3,), None, None)
    assert (file.original_name(4), file.original_name(None)) == ("kernel:0", None)
    assert file.layout.records == {
        name: position for position, name in enumerate(file.layout.names) if position != 4
    }
    assert file.head().entries == ()
    assert file.head().event_key == index.event_key


def test_equal_columns_are_kept_once():
    tables = Tables()
    summary = TensorSummary(mean=1.0)
    one = tables.step_file(_index(Entry("a", 0, 10), Entry("b", 10, 10)))
    two = tables.step_file(_index(Entry("a", 0, 10, crc32=1), Entry("b", 10, 10), step=1))
    far = tables.step_file(_index(Entry("a", 0, 11), Entry("b", 11, 10, summary=summary), step=2))
    bare = tables.step_file(_index(Entry("a", 0, 10), Entry("b"), step=3))
    assert one.layout is two.layout is far.layout
    assert one.places is two.places
    assert far.places is not one.places
    assert bare.layout is not one.layout
    assert (one.crcs, two.crcs) == (None, [1, None])
    assert [far.summary(0), far.summary(1), far.summary(None), one.summary(1)] == [
        None,
        summary,
        None,
        None,
    ]
