"""Values of CloudWatch metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tocsin.events import METRIC_NAMESPACE


@dataclass(frozen=True)
class MetricSink:
    client: Any

    def put(self, name: str, value: float, dimensions: Mapping[str, str]) -> None:
        labels = [{"Name": key, "Value": label} for key, label in dimensions.items()]
        self.client.put_metric_data(
            Namespace=METRIC_NAMESPACE,
            MetricData=[{"MetricName": name, "Value": value, "Dimensions": labels}],
        )
