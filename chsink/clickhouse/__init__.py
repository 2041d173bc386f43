"""ClickHouse over HTTP: the client, the writer of pieces, and what a target table must be like."""
