"""What can be seen of a running sink: log lines, progress, Prometheus metrics, traces."""
