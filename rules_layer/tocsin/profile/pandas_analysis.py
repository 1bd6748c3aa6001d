"""Statistics of the profiler's tables, with smdebug's signatures and columns."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from tocsin.profile.pandas_frame import pandas

_PHASE = "Step:ModeKeys"
_LOOPS = ("Step:ModeKeys.TRAIN", "Step:ModeKeys.GLOBAL")
_QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
_RANGES = ((90, 100), (10, 90), (0, 10))


class StatsBy(Enum):
    """The key by which statistics of steps and utilization are grouped."""

    TRAINING_PHASE = "training_phase"
    FRAMEWORK_METRICS = "framework_metric"
    PROCESS = "process"


class Resource(Enum):
    """The resource of a system metric, as its ``type`` has it."""

    CPU = "cpu"
    GPU = "gpu"
    IO = "i/o"
    NETWORK = "network"
    MEMORY = "memory"


class PandasFrameAnalysis:
    """Statistics of the two tables of a PandasFrame. Changes neither.

    An event without a step has that of the step which it is within, if there is one.
    """

    def __init__(self, system_df: Any, framework_df: Any) -> None:
        self.sys_metrics_df = system_df.copy()
        self.framework_metrics_df = framework_df.copy()
        events = self.framework_metrics_df
        events["duration_us"] = events["end_time_us"] - events["start_time_us"]
        self._assign_steps()

    def get_job_statistics(self) -> dict[str, Any]:
        """Times of the job, its training loop and what is around it: text, µs and percentages.

        Raises ValueError without system metrics or without a step of training.
        """
        system, events = self.sys_metrics_df, self.framework_metrics_df
        steps = events[events["framework_metric"].isin(_LOOPS) & (events["step"] >= 0)]
        if system.empty or steps.empty:
            what = "system metrics" if system.empty else "steps of training"
            raise ValueError(f"there are no {what} in the tables")
        first = steps.loc[steps["start_time_us"].idxmin()]
        begin, end = int(system["timestamp_us"].min()), int(system["timestamp_us"].max())
        loop, last = int(first["start_time_us"]), int(events["end_time_us"].max())
        parts = {
            "job_duration": end - begin,
            "training_loop_duration": last - loop,
            "initialization": loop,
            "finalization": end - last,
        }
        whole = parts["job_duration"] or 1
        return {
            "start_time": system["timestamp"].min(),
            "end_time": system["timestamp"].max(),
            "job_duration": parts["job_duration"],
            "training_loop_start": first["start_time"],
            "training_loop_end": events["end_time"].max(),
            "training_loop_duration": parts["training_loop_duration"],
            "initialization": parts["initialization"],
            "finalization": parts["finalization"],
            "initialization_%": 100 * parts["initialization"] / whole,
            "training_loop_%": 100 * parts["training_loop_duration"] / whole,
            "finalization_%": 100 * parts["finalization"] / whole,
        }

    def get_step_statistics(self, by: StatsBy = StatsBy.TRAINING_PHASE) -> Any:
        """Statistics of the durations of steps in µs, from the first event of a step's group to its
        last one's end, whatever the worker.
        """
        by = StatsBy(by)
        events = self.framework_metrics_df
        column = by.value
        if by is StatsBy.TRAINING_PHASE:
            events = events[_is_phase(events)]
            column = StatsBy.FRAMEWORK_METRICS.value
        spans = events.groupby(["step", column]).agg(
            start=("start_time_us", "min"), end=("end_time_us", "max")
        )
        durations = (spans["end"] - spans["start"]).groupby(level=column)
        return _statistics(durations, "duration", "_us").reset_index(names=by.value)

    def get_utilization_stats(
        self,
        resource: Resource | Sequence[Resource] | None = None,
        by: StatsBy | None = None,
        phase: str | Sequence[str] | None = None,
    ) -> Any:
        """Statistics of the values of each resource and node, of all its metrics together; by the
        phase of training, if asked, of ``phase`` alone or of all.
        """
        pd, samples = pandas(), self.sys_metrics_df
        by_phase = by is not None and StatsBy(by) is StatsBy.TRAINING_PHASE
        keys = ["Training_phase", "nodeID"] if by_phase else ["nodeID"]
        if by_phase:
            samples = samples.assign(Training_phase=self._phases(phase))
        tables = []
        for each in _resources(resource, list(Resource)):
            own = samples[samples["type"].str.contains(each, regex=False)]
            if not own.empty:
                table = _statistics(own.groupby(keys)["value"], "utilization").reset_index()
                table.insert(0, "Resource", each)
                tables.append(table)
        if not tables:
            columns = ["Resource", *keys, *_names("utilization")]
            return pd.DataFrame(columns=columns)
        return pd.concat(tables, ignore_index=True)

    def get_device_usage_stats(
        self,
        device: Resource | Sequence[Resource] | None = None,
        utilization_ranges: Sequence[tuple[float, float]] | None = None,
    ) -> Any:
        """Return how many values of each resource and node are in each range; a value on the border
        of two counts in the first.
        """
        ranges = [tuple(each) for each in (utilization_ranges or _RANGES)]
        if any(len(each) != 2 for each in ranges):
            raise ValueError(f"utilization_ranges {ranges}: each is a pair (from, to)")
        chosen = _resources(device, [Resource.CPU, Resource.GPU])
        samples = self.sys_metrics_df
        samples = samples[samples["type"].isin(chosen)]
        left = samples["value"].notna()
        table = samples.groupby(["type", "nodeID"]).size().to_frame("all")[[]]
        for low, high in ranges:
            inside = left & samples["value"].between(low, high)
            left &= ~inside
            count = samples[inside].groupby(["type", "nodeID"]).size()
            table[(low, high)] = count.reindex(table.index, fill_value=0)
        return table.reset_index()

    def get_training_phase_intervals(self, phase: str | Sequence[str] | None = None) -> Any:
        """Return when each phase of training ran: start and end in µs, and what is before, between,
        after.

        phase: names such as ``Step:ModeKeys.TRAIN``; of one alone each step is an interval.
        Raises ValueError where there is none of them.
        """
        events = self.framework_metrics_df
        known = [each for each in events["process"].unique() if _PHASE in each]
        asked = known if phase is None else [phase] if isinstance(phase, str) else [*phase]
        steps = events[events["framework_metric"].isin([each for each in asked if each in known])]
        if steps.empty:
            raise ValueError(f"no step of {asked or _PHASE} in the table: there are {known}")
        runs = _runs(steps, joined=len(asked) > 1)
        rows = [(self.sys_metrics_df["timestamp_us"].min(), runs[0][0] - 1, f"Before {runs[0][2]}")]
        for at, (begin, end, name) in enumerate(runs):
            rows.append((begin, end, name))
            if at + 1 < len(runs):
                following = runs[at + 1]
                between = " and ".join(sorted([name, following[2]]))
                rows.append((end + 1, following[0] - 1, f"Between {between}"))
        last = self.sys_metrics_df["timestamp_us"].max()
        rows.append((runs[-1][1] + 1, last, f"After {runs[-1][2]}"))
        return pandas().DataFrame(rows, columns=["start_time_us", "end_time_us", "phase"])

    def _phases(self, phase: str | Sequence[str] | None) -> Any:
        """The phase of each sample: the last interval that holds it."""
        samples = self.sys_metrics_df
        found = pandas().Series(None, index=samples.index, dtype=object)
        for begin, end, name in self.get_training_phase_intervals(phase).itertuples(index=False):
            found[samples["timestamp_us"].between(begin, end)] = name
        return found

    def _assign_steps(self) -> None:
        events = self.framework_metrics_df
        steps = events[_is_phase(events) & (events["step"] != -1)]
        spans = steps.groupby("step").agg(
            start=("start_time_us", "min"), end=("end_time_us", "max")
        )
        spans = spans.sort_values("start")
        for at in events.index[events["step"] == -1]:
            begin, end = events.at[at, "start_time_us"], events.at[at, "end_time_us"]
            within = spans.index[(spans["start"] < begin) & (spans["end"] > end)]
            if len(within):
                events.at[at, "step"] = within[0]


def _is_phase(events: Any) -> Any:
    return events["framework_metric"].str.contains(_PHASE, regex=False)


def _runs(steps: Any, *, joined: bool) -> list[tuple[int, int, str]]:
    """Begin, end and phase of each step, or of each row of steps of one phase."""
    runs: list[tuple[int, int, str]] = []
    columns = steps[["start_time_us", "end_time_us", "framework_metric"]]
    for begin, end, name in columns.itertuples(index=False):
        if joined and runs and runs[-1][2] == name:
            runs[-1] = min(runs[-1][0], begin), max(runs[-1][1], end), name
        else:
            runs.append((begin, end, name))
    return runs


def _resources(
    asked: Resource | Sequence[Resource] | None, otherwise: Sequence[Resource]
) -> list[str]:
    chosen = otherwise if asked is None else [asked] if isinstance(asked, Resource) else asked
    return [Resource(each).value for each in chosen]


def _names(what: str, unit: str = "") -> list[str]:
    quantiles = [name for name, _ in _QUANTILES]
    return [f"{what}_{name}{unit}" for name in ("mean", "min", "max", *quantiles)]


def _statistics(groups: Any, what: str, unit: str = "") -> Any:
    """A row for each group of numbers: mean, least, greatest, quantiles."""
    numbers = [groups.mean(), groups.min(), groups.max()]
    numbers += [groups.quantile(share) for _, share in _QUANTILES]
    names = _names(what, unit)
    return pandas().concat(numbers, axis=1, keys=names).astype(float)
