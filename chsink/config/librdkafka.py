"""Options of Java's Kafka client, translated for librdkafka.

Spark's source is the Java client; chsink's own queries (topic ids, log ends) go through librdkafka, which names some
connection options differently.  A user describes the connection once, with Java's names.

Rules:
- What decides *where and as whom* one connects (``security.protocol``, ``sasl.*``, ``ssl.*``, ``client.*``) is
  translated or refused: it is never dropped.  The rest tunes reading, which librdkafka does not do here.
- A user's ``kafka.client_options`` override the result, and answer for their family: with any ``ssl.*`` among them no
  ``ssl.*`` is refused, and the same for ``sasl.*``.

What needs no thought is data: ``librdkafka.toml``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files

from chsink.config.problems import closest
from chsink.errors import ChsinkError, job_file

_DATA = tomllib.loads(files("chsink.config").joinpath("librdkafka.toml").read_text(encoding="utf-8"))
_RENAMED: Mapping[str, str] = _DATA["renamed"]
_COMPANIONS = frozenset(_DATA["options"]["companions"])
JAVA_ONLY = frozenset(_DATA["options"]["java_only"])
_JAVA_ONLY_PREFIXES = tuple(_DATA["options"]["java_only_prefixes"])
_CONNECTION = ("security.", "ssl.", "sasl.", "client.")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_JAAS_ENTRY = re.compile(r"""([\w.]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;]+)""", re.DOTALL)
_LOGIN = {"username": "sasl.username", "password": "sasl.password"}
_BEARER_LOGIN = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}


@dataclass(slots=True)
class Translation:
    """librdkafka options so far, and the Java options that cannot be translated, each with the error."""

    options: dict[str, str] = field(default_factory=dict)
    refused: list[tuple[str, ChsinkError]] = field(default_factory=list)


def translate(java: Mapping[str, str], replaced: Mapping[str, str]) -> Translation:
    """``java`` options as librdkafka's, overridden by ``replaced`` (which are librdkafka's already)."""
    done = Translation()
    for option, value in java.items():
        if option in _RENAMED:
            done.options[_RENAMED[option]] = value
        elif option in _SPECIAL:
            _SPECIAL[option](java, done)
        elif option.startswith(_CONNECTION) and not _is_ignored(option):
            done.refused.append((option, _no_counterpart(option)))
    families = {_family(option) for option in replaced}
    done.refused = [(option, error) for option, error in done.refused if _family(option) not in families]
    done.options.update(replaced)
    return done


def translated_options() -> frozenset[str]:
    """The Java connection options that librdkafka gets in its own way."""
    return _COMPANIONS | _RENAMED.keys() | _SPECIAL.keys()


def _family(option: str) -> str:
    return option.partition(".")[0]


def _is_ignored(option: str) -> bool:
    return option in JAVA_ONLY or option in _COMPANIONS or option.startswith(_JAVA_ONLY_PREFIXES)


def _no_counterpart(option: str) -> ChsinkError:
    meant = closest(option, translated_options() | JAVA_ONLY)
    asked = f"did you mean `{meant}`? If not, " if meant else ""
    return job_file.NO_COUNTERPART(asked=asked, family=_family(option))


def _truststore(java: Mapping[str, str], done: Translation) -> None:
    if java.get("ssl.truststore.type", "JKS").upper() == "PEM":
        done.options["ssl.ca.location"] = java["ssl.truststore.location"]
    else:
        done.refused.append(("ssl.truststore.location", job_file.TRUST_STORE_NOT_PEM()))


def _keystore(java: Mapping[str, str], done: Translation) -> None:
    path, kind = java["ssl.keystore.location"], java.get("ssl.keystore.type", "JKS").upper()
    if kind == "PEM":  # one file with the chain and the key: each reader takes its own blocks
        done.options |= {"ssl.certificate.location": path, "ssl.key.location": path}
    elif kind == "PKCS12":
        password = java.get("ssl.keystore.password", "")
        done.options |= {"ssl.keystore.location": path, "ssl.keystore.password": password}
    else:
        done.refused.append(("ssl.keystore.location", job_file.KEY_STORE_NOT_PEM()))


def _identification(java: Mapping[str, str], done: Translation) -> None:
    # Java switches the check off with an empty text, librdkafka with "none".
    name = "ssl.endpoint.identification.algorithm"
    done.options[name] = java[name].strip() or "none"


def _protocol(java: Mapping[str, str], done: Translation) -> None:
    done.options["security.protocol"] = java["security.protocol"]
    if java["security.protocol"].upper().startswith("SASL_") and "sasl.mechanism" not in java:
        done.refused.append(("sasl.mechanism", job_file.NO_MECHANISM()))


def _mechanism(java: Mapping[str, str], done: Translation) -> None:
    mechanism = java["sasl.mechanism"].upper()
    if mechanism not in _MECHANISMS:
        done.refused.append(("sasl.mechanism", job_file.MECHANISM_UNSUPPORTED(mechanism=mechanism)))
        return
    done.options["sasl.mechanism"] = mechanism
    if mechanism == "OAUTHBEARER":
        done.options["sasl.oauthbearer.method"] = "oidc"


def _jaas(java: Mapping[str, str], done: Translation) -> None:
    entries = {name: _unquoted(value) for name, value in _JAAS_ENTRY.findall(java["sasl.jaas.config"])}
    bearer = java.get("sasl.mechanism", "").upper() == "OAUTHBEARER"
    names = _BEARER_LOGIN if bearer else _LOGIN
    if missing := " and ".join(name for name in names if name not in entries and name != "scope"):
        incomplete = job_file.BEARER_LOGIN_INCOMPLETE if bearer else job_file.LOGIN_INCOMPLETE
        done.refused.append(("sasl.jaas.config", incomplete(missing=missing)))
    done.options |= {names[entry]: value for entry, value in entries.items() if entry in names}


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL) if text[0] in "\"'" else text


_SPECIAL: dict[str, Callable[[Mapping[str, str], Translation], None]] = {
    "security.protocol": _protocol,
    "ssl.truststore.location": _truststore,
    "ssl.keystore.location": _keystore,
    "ssl.endpoint.identification.algorithm": _identification,
    "sasl.mechanism": _mechanism,
    "sasl.jaas.config": _jaas,
}
