"""Prints what TensorBoard sees in a folder; run by an interpreter that has tensorboard."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.util import tensor_util


def main() -> None:
    folder = Path(sys.argv[1])
    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(folder))
    multiplexer.Reload()
    runs = multiplexer.Runs()
    seen = {
        "runs": {name: plain(folder / name) for name in runs},
        "shown": {name: shown(multiplexer, name) for name in runs},
    }
    print(json.dumps(seen))


def plain(folder):
    """The events as they lie in the files, every one."""
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "histograms": 0})
    events.Reload()
    return {
        "scalars": {
            tag: [[event.step, event.wall_time, event.value] for event in events.Scalars(tag)]
            for tag in events.Tags()["scalars"]
        },
        "histograms": {
            tag: [[event.step, vars(event.histogram_value)] for event in events.Histograms(tag)]
            for tag in events.Tags()["histograms"]
        },
    }


def shown(multiplexer, run):
    """What the plug-ins show, which take the events in their newer form."""
    return {
        plugin: {
            tag: [
                [event.step, listed(tensor_util.make_ndarray(event.tensor_proto))]
                for event in multiplexer.Tensors(run, tag)
            ]
            for tag in multiplexer.PluginRunToTagToContent(plugin).get(run, {})
        }
        for plugin in ("scalars", "histograms", "text")
    }


def listed(array):
    return [each.decode() for each in array] if array.dtype == object else array.tolist()


if __name__ == "__main__":
    main()
