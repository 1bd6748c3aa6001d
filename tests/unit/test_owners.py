from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.owners import owner_of


@pytest.mark.parametrize(
    ("run", "prefix", "owner"),
    [
        ("s3://b/vision/resnet", "", "vision"),
        ("s3://b/vision/resnet/debug-output", "", "vision"),
        ("s3://b/runs/vision/resnet", "runs/", "vision"),
        ("s3://b/runs/vision/resnet", "", "runs"),
        ("s3://b/team/runs/vision/a/b/c", "team/runs/", "vision"),
        ("s3://b/runs", "runs/", ""),  # the prefix is a run itself
        ("s3://b/runs/resnet", "runs/", "resnet"),  # no folders of teams: each job by itself
        ("s3://b/runsx/resnet", "runs/", "runsx"),
        ("s3://b/elsewhere/resnet", "runs/", "elsewhere"),
        ("s3://b", "", ""),
        ("s3://b/runs//x/y", "runs/", ""),
    ],
)
def test_the_owner_of_a_run(run: str, prefix: str, owner: str) -> None:
    assert owner_of(run, prefix) == owner


@given(st.text(st.characters(blacklist_characters="\x00"), max_size=40))
def test_below_a_folder_there_is_no_other_owner(path: str) -> None:
    assert owner_of(f"s3://b/runs/evil/{path}", "runs/") == "evil"
