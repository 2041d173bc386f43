"""What can be seen of a running sink: log lines, a progress bar, Prometheus metrics, traces."""
