"""The append of one commit: a manifest for each partition spec, merged into larger ones when they are many.

pyiceberg's own append lists every new file in one manifest of the table's default spec.  A file of another spec would
then be looked for under the wrong partition values, and a filter would not find its rows.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping

from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile, ManifestWriter, write_manifest
from pyiceberg.manifest import ManifestEntryStatus as Status
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table import TableProperties as P
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, SnapshotSummaryCollector, Summary, update_snapshot_summaries
from pyiceberg.table.update.snapshot import _MergeAppendFiles
from pyiceberg.typedef import EMPTY_DICT
from pyiceberg.utils.properties import property_as_bool


class _AsRead(Transaction):
    """Changes nothing itself.  pyiceberg's own copies all metadata whenever it is asked for them, some twenty times a
    commit: with a thousand snapshots, that took most of a commit's time.
    """

    @property
    def table_metadata(self) -> TableMetadata:
        return self._table.metadata


class AppendBySpec(_MergeAppendFiles):
    """Appends data files, each of the spec that ``DataFile.spec_id`` names.  Raises ``KeyError`` if the table has none
    of that id.
    """

    def __init__(self, table: Table, attempt: uuid.UUID, summary: Mapping[str, str], branch: str) -> None:
        transaction = _AsRead(table, autocommit=False)
        super().__init__(Operation.APPEND, transaction, table.io, branch, attempt, dict(summary))
        # Iceberg's default; pyiceberg's own is not to merge
        self._merge_enabled = property_as_bool(table.properties, P.MANIFEST_MERGE_ENABLED, default=True)

    def _manifests(self) -> list[ManifestFile]:
        files: dict[int, list[DataFile]] = defaultdict(list)
        for file in self._added_data_files:
            files[file.spec_id].append(file)
        added = [self._manifest(spec_id, mine) for spec_id, mine in files.items()]
        return self._process_manifests(added + self._existing_manifests())

    def new_manifest_writer(self, spec: PartitionSpec) -> ManifestWriter:
        """As pyiceberg's, but for a spec whose columns the table has no longer."""
        metadata, output = self._transaction.table_metadata, self.new_manifest_output()
        version, schema = metadata.format_version, _schema_of(spec, metadata)
        return write_manifest(version, spec, schema, output, self._snapshot_id, self._compression)

    def _manifest(self, spec_id: int, files: list[DataFile]) -> ManifestFile:
        with self.new_manifest_writer(self.spec(spec_id)) as writer:
            for file in files:
                writer.add(
                    ManifestEntry.from_args(
                        status=Status.ADDED,
                        snapshot_id=self._snapshot_id,
                        sequence_number=None,
                        file_sequence_number=None,
                        data_file=file,
                    )
                )
        return writer.to_manifest_file()

    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        metadata = self._transaction.table_metadata
        counts, specs = SnapshotSummaryCollector(), metadata.specs()
        schemas = {spec_id: _schema_of(spec, metadata) for spec_id, spec in specs.items()}
        for file in self._added_data_files:
            counts.add_file(file, schemas[file.spec_id], specs[file.spec_id])
        before = metadata.snapshot_by_id(self._parent_snapshot_id) if self._parent_snapshot_id is not None else None
        mine = Summary(operation=self._operation, **counts.build(), **snapshot_properties)
        return update_snapshot_summaries(mine, None if before is None else before.summary)


def _schema_of(spec: PartitionSpec, metadata: TableMetadata) -> Schema:
    """The newest schema that has all columns of a spec: the table may have dropped some since."""
    sources, now = {field.source_id for field in spec.fields}, metadata.schema()
    earlier = sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
    return next((schema for schema in (now, *earlier) if sources <= set(schema.field_ids)), now)
