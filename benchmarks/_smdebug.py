"""Times smdebug on a job, as JSON; run by its own interpreter: FOLDER."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from _jobs import STEPS, read, tensors
from google.protobuf.internal import api_implementation
from smdebug.core.modes import ModeKeys
from smdebug.core.writer import FileWriter
from smdebug.trials import create_trial


def main() -> None:
    folder = Path(sys.argv[1])
    taken = {}
    for job in STEPS:
        path = str(folder / job)
        taken["write", job] = write(job, path)
        taken["open", job], taken["read", job] = read(create_trial, path)
    facts = {"python": sys.version.split()[0], "protobuf": api_implementation.Type()}
    print(json.dumps(facts | {" ".join(key): seconds for key, seconds in taken.items()}))


def write(job, path):
    """As its hook writes: a writer for each step."""
    collection = {"name": "all", "include_regex": [".*"], "tensor_names": []}
    collection |= {"reduction_config": None, "save_config": None, "save_histogram": True}
    place = Path(path, "collections", "000000000", "worker_0_collections.json")
    place.parent.mkdir(parents=True)
    document = {"collections": {"all": collection}, "_meta": {"num_workers": 1}}
    place.write_text(json.dumps(document))
    values = tensors(job)
    start = time.perf_counter()
    for step in range(STEPS[job]):
        writer = FileWriter(trial_dir=path, step=step, worker="worker_0")
        for name, value in values:
            writer.write_tensor(value, name, mode=ModeKeys.TRAIN, mode_step=step)
        writer.close()
    taken = time.perf_counter() - start
    Path(path, "training_job_end.ts").touch()
    return taken


if __name__ == "__main__":
    main()
