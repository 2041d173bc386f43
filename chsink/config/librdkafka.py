"""Options of Java's Kafka client, translated for librdkafka.

Spark's source is the Java client; chsink's own queries (topic ids, log ends) go through librdkafka, which names some
connection options differently.  A user describes the connection once, with Java's names.

Rules:
- Options that decide *where and as whom* to connect (``security.protocol``, ``sasl.*``, ``ssl.*``, ``client.*``) are
  translated or refused, never dropped.  All others tune reading, which librdkafka does not do here, and are dropped.
- A user's ``kafka.client_options`` override the translation.  If they contain any ``ssl.*`` option, no ``ssl.*`` option
  is refused; the same holds for ``sasl.*``.

Options that are only renamed or dropped are listed in ``librdkafka.toml``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from importlib.resources import files

from chsink.config.problems import closest
from chsink.errors import ChsinkError, ConfigError, job_file

_DATA = tomllib.loads(files("chsink.config").joinpath("librdkafka.toml").read_text(encoding="utf-8"))
_RENAMED: Mapping[str, str] = _DATA["renamed"]
_COMPANIONS = frozenset(_DATA["options"]["companions"])
JAVA_ONLY = frozenset(_DATA["options"]["java_only"])
_JAVA_ONLY_PREFIXES = tuple(_DATA["options"]["java_only_prefixes"])
_CONNECTION = ("security.", "ssl.", "sasl.", "client.")
_LOGINS: Mapping[str, Mapping[str, str]] = _DATA["logins"]
LOGIN_HANDLERS: tuple[str, ...] = tuple(_DATA["options"]["login_handlers"])
_JAAS_ENTRY = re.compile(r"""([\w.]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;]+)""", re.DOTALL)


RefusedOptions = list[tuple[str, ChsinkError]]


def translate(java: Mapping[str, str], replaced: Mapping[str, str]) -> tuple[dict[str, str], RefusedOptions]:
    """The ``java`` options with librdkafka's names, overridden by ``replaced`` (librdkafka's options); and the error
    for each option that cannot be translated.
    """
    options: dict[str, str] = {}
    refused: RefusedOptions = []
    families = {_family(option) for option in replaced}
    login = ["sasl.mechanism"] if java.get("security.protocol", "").upper().startswith("SASL_") else []
    for option in dict.fromkeys([*java, *login]):
        try:
            options |= _translated(option, java)
        except ConfigError as error:
            if _family(option) not in families:
                refused.append((option, error))
    return options | dict(replaced), refused


def _translated(option: str, java: Mapping[str, str]) -> dict[str, str]:
    """One option with librdkafka's names; empty if librdkafka does not need it.  CHS-109 if it has no counterpart."""
    if option in _RENAMED:
        return {_RENAMED[option]: java[option]}
    if option in _SPECIAL:
        return _SPECIAL[option](java)
    ignored = option in JAVA_ONLY or option in _COMPANIONS or option.startswith(_JAVA_ONLY_PREFIXES)
    if ignored or not option.startswith(_CONNECTION):
        return {}
    if meant := closest(option, translated_options() | JAVA_ONLY):
        raise job_file.MISSPELT_OPTION(meant=meant, family=_family(option))
    raise job_file.NO_COUNTERPART(family=_family(option))


def translated_options() -> frozenset[str]:
    """The Java connection options that have a translation: renamed, converted, or read together with another option."""
    return _COMPANIONS | _RENAMED.keys() | _SPECIAL.keys()


def _family(option: str) -> str:
    return option.partition(".")[0]


def _truststore(java: Mapping[str, str]) -> dict[str, str]:
    if java.get("ssl.truststore.type", "JKS").upper() != "PEM":
        raise job_file.TRUST_STORE_NOT_PEM()
    return {"ssl.ca.location": java["ssl.truststore.location"]}


def _keystore(java: Mapping[str, str]) -> dict[str, str]:
    path, kind = java["ssl.keystore.location"], java.get("ssl.keystore.type", "JKS").upper()
    if kind == "PEM":  # one file holds the chain and the key: librdkafka reads each from the same file
        return {"ssl.certificate.location": path, "ssl.key.location": path}
    if kind == "PKCS12":
        return {"ssl.keystore.location": path, "ssl.keystore.password": java.get("ssl.keystore.password", "")}
    raise job_file.KEY_STORE_NOT_PEM()


def _identification(java: Mapping[str, str]) -> dict[str, str]:
    # Java switches the check off with an empty string, librdkafka with "none".
    name = "ssl.endpoint.identification.algorithm"
    return {name: java[name].strip() or "none"}


def _mechanism(java: Mapping[str, str]) -> dict[str, str]:
    if "sasl.mechanism" not in java:
        raise job_file.NO_MECHANISM()
    mechanism = java["sasl.mechanism"].upper()
    if mechanism not in _LOGINS:
        raise job_file.MECHANISM_UNSUPPORTED(mechanism=mechanism)
    method = {"sasl.oauthbearer.method": "oidc"} if mechanism == "OAUTHBEARER" else {}
    return {"sasl.mechanism": mechanism, **method}


def _login_handler(java: Mapping[str, str]) -> dict[str, str]:
    """Kafka's own handler asks the endpoint for tokens, as librdkafka does; what another one does is not known."""
    if java["sasl.login.callback.handler.class"] not in LOGIN_HANDLERS:
        raise job_file.NO_COUNTERPART(family="sasl")
    return {}


def _jaas(java: Mapping[str, str]) -> dict[str, str]:
    entries = {name: _unquoted(value) for name, value in _JAAS_ENTRY.findall(java["sasl.jaas.config"])}
    mechanism = java.get("sasl.mechanism", "").upper()
    names = _LOGINS.get(mechanism, _LOGINS["PLAIN"])
    if missing := " and ".join(name for name in names if name not in entries and name != "scope"):
        bearer = mechanism == "OAUTHBEARER"
        raise (job_file.BEARER_LOGIN_INCOMPLETE if bearer else job_file.LOGIN_INCOMPLETE)(missing=missing)
    return {names[entry]: value for entry, value in entries.items() if entry in names}


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL) if text[0] in "\"'" else text


_SPECIAL: dict[str, Callable[[Mapping[str, str]], dict[str, str]]] = {
    "ssl.truststore.location": _truststore,
    "ssl.keystore.location": _keystore,
    "ssl.endpoint.identification.algorithm": _identification,
    "sasl.mechanism": _mechanism,
    "sasl.login.callback.handler.class": _login_handler,
    "sasl.jaas.config": _jaas,
}
