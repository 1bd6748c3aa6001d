"""The metrics of ``tocsin watch``: for Prometheus, which fetches them, and by OTLP."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tocsin.cli.errors import CommandError
from tocsin.cli.output import note
from tocsin.cli.run_view import RunView
from tocsin.words import clean

_ADDRESS = re.compile(r"(?P<host>[\w.-]*):(?P<port>\d{1,5})")
_MOST_LOSSES = 100

HELP: Mapping[str, str] = {
    "tocsin_rule_firing": "1 while the rule reports an issue, else 0",
    "tocsin_rule_status": "1 for the status that the rule has",
    "tocsin_last_step": "the last step that was evaluated",
    "tocsin_evaluated_steps": "how many saved steps were evaluated",
    "tocsin_steps_per_second": "the speed of the training",
    "tocsin_last_step_age_seconds": "seconds since the last step was saved",
    "tocsin_finished": "1 when the run has ended, else 0",
    "tocsin_loss": "the last value of each loss",
}


@dataclass(frozen=True)
class Sample:
    """A number now, with the name of its metric."""

    name: str
    value: float
    labels: Mapping[str, str]


def samples(view: RunView) -> Iterator[Sample]:
    """Yield the numbers of a look. The label ``run`` is the run's URL."""
    document = view.document
    run = {"run": clean(document["run"])}
    for rule in document["rules"]:
        status, severity = rule["RuleEvaluationStatus"], rule["Severity"] or ""
        named = {**run, "rule": clean(rule["RuleConfigurationName"], 200)}
        firing = float(status == "IssuesFound")
        yield Sample("tocsin_rule_firing", firing, {**named, "severity": severity})
        yield Sample("tocsin_rule_status", 1.0, {**named, "status": status})
    steps = document["steps"]
    found = {
        "tocsin_last_step": steps["last"],
        "tocsin_evaluated_steps": steps["evaluated"],
        "tocsin_steps_per_second": view.rate,
        "tocsin_last_step_age_seconds": view.idle,
        "tocsin_finished": document["finished"],
    }
    for name, value in found.items():
        if value is not None:
            yield Sample(name, float(value), run)
    for curve in view.losses[:_MOST_LOSSES]:
        if curve.y:
            last = math.nan if curve.y[-1] is None else curve.y[-1]
            labels = {"tensor": clean(curve.name, 200), "mode": curve.mode, "worker": curve.worker}
            yield Sample("tocsin_loss", last, {**run, **labels})


@dataclass
class Latest:
    """The samples of the last look, by metric."""

    found: dict[str, list[Sample]] = field(default_factory=dict)

    def take(self, view: RunView) -> None:
        found: dict[str, list[Sample]] = {}
        for each in samples(view):
            found.setdefault(each.name, []).append(each)
        self.found = found


@contextmanager
def exporting(prometheus: str | None, otlp: str | None) -> Iterator[Callable[[RunView], None]]:
    """Export the snapshots passed to the yielded function. Raises CommandError."""
    latest = Latest()
    ends: list[Callable[[], object]] = []
    try:
        if prometheus is not None:
            ends.append(_serve(prometheus, latest))
        if otlp is not None:
            ends.append(_push(otlp, latest))
        yield latest.take
    finally:
        for end in ends:
            end()


def _serve(address: str, latest: Latest) -> Callable[[], object]:
    """Serve the metrics at ``HOST:PORT`` or ``:PORT``. Returns a function that stops."""
    where = _ADDRESS.fullmatch(address)
    if where is None or int(where["port"]) > 65535:
        raise CommandError(f"--prometheus {address}: write :9464 or 127.0.0.1:9464")
    try:
        from prometheus_client import CollectorRegistry, start_http_server
        from prometheus_client.core import GaugeMetricFamily
    except ImportError:
        raise CommandError("--prometheus needs its client: pip install prometheus-client") from None

    class Run:
        def collect(self) -> Iterable[GaugeMetricFamily]:
            for name, found in latest.found.items():
                family = GaugeMetricFamily(name, HELP[name], labels=[*found[0].labels])
                for each in found:
                    family.add_metric([*each.labels.values()], each.value)
                yield family

    registry = CollectorRegistry()
    registry.register(Run())
    try:
        server, thread = start_http_server(
            int(where["port"]),
            where["host"] or "0.0.0.0",  # noqa: S104 - as asked for
            registry,
        )
    except OSError as error:
        raise CommandError(f"--prometheus {address}: {error.strerror}") from None

    note(f"metrics at http://{where['host'] or 'localhost'}:{server.server_port}/metrics")

    def end() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return end


def _push(endpoint: str, latest: Latest) -> Callable[[], object]:
    """Send metrics to an OTLP endpoint every minute and at the end. Returns a stop function."""
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.metrics import CallbackOptions, Observation
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    except ImportError:
        raise CommandError(
            "--otlp needs OpenTelemetry: "
            "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
        ) from None
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=endpoint))
    provider = MeterProvider([reader])
    meter = provider.get_meter("tocsin")

    def observed(name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda options: [
            Observation(each.value, dict(each.labels)) for each in latest.found.get(name, ())
        ]

    for name, text in HELP.items():
        meter.create_observable_gauge(name, [observed(name)], description=text)

    def end() -> None:
        provider.shutdown()

    return end
