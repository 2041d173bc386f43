from collections.abc import Sequence

from pyarrow import Table

class Dataset:
    def to_table(self, columns: Sequence[str] | None = None) -> Table: ...

def dataset(source: str, schema: None = None, format: str | None = None) -> Dataset: ...
