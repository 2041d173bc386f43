"""What TLS says when one side does not accept the other, in terms of the job file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_MEANINGS: Final = {
    r"verify failed: (?:unable to get|self.signed)": "no trusted authority signed the server's certificate: name the "
    "PEM file of the one that did in {keys}.ca_file",
    r"verify failed: certificate has expired": "the server's certificate has expired: renew it",
    r"verify failed: .*(?:mismatch|not valid for)": "the server's certificate is for another host: use a host name "
    "that it contains in {urls}",
    r"ALERT_(?:BAD_CERTIFICATE|CERTIFICATE|UNKNOWN_CA)|CERTIFICATE_REQUIRED": "the server did not accept the "
    "certificate of this job, or got none: set {keys}.cert_file and {keys}.key_file to one that it trusts and that has "
    "not expired",
    r"KEY_VALUES_MISMATCH": "{keys}.key_file is not the key of {keys}.cert_file",
    r"NO_CERTIFICATE_OR_CRL_FOUND": "there is no certificate in {keys}.ca_file",
    r"WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE": "the server does not speak TLS on this port: change https:// to "
    "http://, or name its TLS port",
}


def meaning(said: str, keys: str, urls: str) -> str:
    """What to change; "" if TLS said something else.  ``keys`` is the section of the files, ``urls`` the key of the
    URLs.
    """
    found = next((words for pattern, words in _MEANINGS.items() if re.search(pattern, said)), "")
    return found.format(keys=keys, urls=urls)


def unreadable(files: Mapping[str, str | None]) -> str:
    """The first of the files, by their keys, that cannot be read, and why; "" if all can.  TLS does not name it."""
    for key, file in files.items():
        try:
            if file is not None:
                Path(file).open("rb").close()
        except OSError as error:
            return f"{key}: {file}: {error.strerror}"
    return ""
