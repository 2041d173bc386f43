from datetime import datetime
from enum import IntEnum

class FileType(IntEnum):
    NotFound = 0
    Unknown = 1
    File = 2
    Directory = 3

class FileInfo:
    @property
    def path(self) -> str: ...
    @property
    def type(self) -> FileType: ...
    @property
    def size(self) -> int | None: ...
    @property
    def mtime(self) -> datetime | None: ...

class FileSelector:
    def __init__(self, base_dir: str, allow_not_found: bool = False, recursive: bool = False) -> None: ...

class FileSystem:
    def get_file_info(self, paths_or_selector: FileSelector) -> list[FileInfo]: ...
