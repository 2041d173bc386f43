"""Java Kafka client properties, translated for librdkafka.

Spark's source is the Java client; chsink's own look-ups (topic ids, log ends) go through librdkafka, which names some
connection properties differently.  A user states the connection once, in Java's names.

Rules:
- What decides *where and as whom* one connects (``security.protocol``, ``sasl.*``, ``ssl.*``, ``client.*``) is
  translated or refused: it is never dropped.  The rest tunes reading, which librdkafka does not do here.
- A user's ``kafka.client_options`` are laid over the result, and answer for their family: with any ``ssl.*`` among
  them no ``ssl.*`` is refused, and the same for ``sasl.*``.

Source: the configuration references of Apache Kafka 3.9 and of librdkafka 2.16.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from chsink.config.problems import closest

_USE_PEM = "chsink's own Kafka client reads PEM, not Java key stores"
_PEM_TRUST = (
    'export the certificates as PEM, set `ssl.truststore.type = "PEM"` and let `ssl.truststore.location` name the '
    "file; or set `ssl.ca.location` in [kafka.client_options]"
)
_PEM_KEY = (
    'export certificate chain and key into one PEM file and set `ssl.keystore.type = "PEM"` (PKCS12 works too); '
    "or set `ssl.certificate.location` and `ssl.key.location` in [kafka.client_options]"
)
_MECHANISMS = (
    "use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; "
    "or let chsink's own client log in otherwise, by `sasl.mechanism` in [kafka.client_options]"
)
_LOGIN = 'write the login module as Java\'s client takes it: `…LoginModule required username="…" password="…";`'
_BEARER_LOGIN = 'write `…OAuthBearerLoginModule required clientId="…" clientSecret="…";`'
_SAME_NAME = frozenset(
    {
        "client.id",
        "client.rack",
        "client.dns.lookup",
        "ssl.key.password",
    }
)
_RENAMED = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "sasl.oauthbearer.token.endpoint.url": "sasl.oauthbearer.token.endpoint.url",
}
# Hardening or refresh timing of Java's client; the peer and the identity are the same without it.
JAVA_ONLY = frozenset(
    {
        "ssl.protocol",
        "ssl.provider",
        "ssl.enabled.protocols",
        "ssl.cipher.suites",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
        "ssl.secure.random.implementation",
    }
)
_JAVA_ONLY_PREFIXES = ("sasl.login.refresh.", "sasl.login.retry.", "sasl.login.connect.", "sasl.login.read.")
# Read together with another property by the functions below.
_COMPANIONS = frozenset(
    {"ssl.truststore.type", "ssl.truststore.password", "ssl.keystore.type", "ssl.keystore.password"}
)
_CONNECTION = ("security.", "ssl.", "sasl.", "client.")
_JAAS_ENTRY = re.compile(r"""([\w.]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;]+)""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Refused:
    """A property that cannot be translated."""

    option: str
    message: str
    hint: str


@dataclass(slots=True)
class Translation:
    """librdkafka properties so far, and what stood in the way."""

    options: dict[str, str] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)


def translate(java: Mapping[str, str], replaced: Mapping[str, str]) -> Translation:
    """``java`` properties as librdkafka's, overlaid with ``replaced`` (which are librdkafka's already)."""
    done = Translation()
    for option, value in java.items():
        if option in _SAME_NAME:
            done.options[option] = value
        elif option in _RENAMED:
            done.options[_RENAMED[option]] = value
        elif option in _SPECIAL:
            _SPECIAL[option](java, done)
        elif option.startswith(_CONNECTION) and not _is_ignored(option):
            done.refused.append(_unknown(option))
    families = {_family(option) for option in replaced}
    done.refused = [refused for refused in done.refused if _family(refused.option) not in families]
    done.options.update(replaced)
    return done


def translated_options() -> frozenset[str]:
    """The Java connection properties that librdkafka gets in its own way."""
    return _SAME_NAME | _RENAMED.keys() | _COMPANIONS | _SPECIAL.keys()


def _family(option: str) -> str:
    return option.partition(".")[0]


def _is_ignored(option: str) -> bool:
    return option in JAVA_ONLY or option in _COMPANIONS or option.startswith(_JAVA_ONLY_PREFIXES)


def _unknown(option: str) -> Refused:
    meant = closest(option, translated_options() | JAVA_ONLY)
    asked = f"did you mean `{meant}`? If not, " if meant else ""
    hint = f"{asked}state `{_family(option)}.*` for chsink's own client in [kafka.client_options]"
    return Refused(option, "chsink's own Kafka client has no counterpart of it", hint)


def _truststore(java: Mapping[str, str], done: Translation) -> None:
    if java.get("ssl.truststore.type", "JKS").upper() == "PEM":
        done.options["ssl.ca.location"] = java["ssl.truststore.location"]
    else:
        done.refused.append(Refused("ssl.truststore.location", _USE_PEM, _PEM_TRUST))


def _keystore(java: Mapping[str, str], done: Translation) -> None:
    path, kind = java["ssl.keystore.location"], java.get("ssl.keystore.type", "JKS").upper()
    if kind == "PEM":  # one file with the chain and the key: each reader takes its own blocks
        done.options |= {"ssl.certificate.location": path, "ssl.key.location": path}
    elif kind == "PKCS12":
        password = java.get("ssl.keystore.password", "")
        done.options |= {"ssl.keystore.location": path, "ssl.keystore.password": password}
    else:
        done.refused.append(Refused("ssl.keystore.location", _USE_PEM, _PEM_KEY))


def _identification(java: Mapping[str, str], done: Translation) -> None:
    # Java switches the check off with an empty text, librdkafka with "none".
    name = "ssl.endpoint.identification.algorithm"
    done.options[name] = java[name].strip() or "none"


def _protocol(java: Mapping[str, str], done: Translation) -> None:
    done.options["security.protocol"] = java["security.protocol"]
    if java["security.protocol"].upper().startswith("SASL_") and "sasl.mechanism" not in java:
        message = "it is missing, and Java's default, GSSAPI, is not built into chsink's own Kafka client"
        done.refused.append(Refused("sasl.mechanism", message, _MECHANISMS))


def _mechanism(java: Mapping[str, str], done: Translation) -> None:
    mechanism = java["sasl.mechanism"].upper()
    if mechanism not in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"):
        message = f"{mechanism} is not built into chsink's own Kafka client"
        done.refused.append(Refused("sasl.mechanism", message, _MECHANISMS))
        return
    done.options["sasl.mechanism"] = mechanism
    if mechanism == "OAUTHBEARER":
        done.options["sasl.oauthbearer.method"] = "oidc"


def _jaas(java: Mapping[str, str], done: Translation) -> None:
    entries = {name: _unquoted(value) for name, value in _JAAS_ENTRY.findall(java["sasl.jaas.config"])}
    names = {"username": "sasl.username", "password": "sasl.password"}
    needed, hint = {"username", "password"}, _LOGIN
    if java.get("sasl.mechanism", "").upper() == "OAUTHBEARER":
        names = {
            "clientId": "sasl.oauthbearer.client.id",
            "clientSecret": "sasl.oauthbearer.client.secret",
            "scope": "sasl.oauthbearer.scope",
        }
        needed, hint = {"clientId", "clientSecret"}, _BEARER_LOGIN
    if missing := needed - entries.keys():
        message = f"it does not name {' and '.join(sorted(missing))}"
        done.refused.append(Refused("sasl.jaas.config", message, hint))
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
