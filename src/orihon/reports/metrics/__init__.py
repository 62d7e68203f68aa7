"""Metrics for Prometheus: of everything that shares a catalogue, read from there.

``collect_metrics`` gives them once, ``MetricsServer`` to whoever asks over HTTP. Owns the names of the metrics
(``families``) and the promise that a scrape takes no longer when there are more tasks. Refuses to answer, where it
listens on this machine alone, requests that name another host: those come from a web page.
"""

from __future__ import annotations

from orihon.reports.metrics.server import MetricsServer, collect_metrics, metric_samples

__all__ = ["MetricsServer", "collect_metrics", "metric_samples"]
