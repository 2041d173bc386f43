"""Certificates that a test makes for itself: an authority, and what it signs, as PEM files and key stores."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Certificate:
    """``cert`` and ``key`` are PEM files, ``both`` holds the two, as Java reads them; ``store`` is PKCS 12."""

    cert: Path
    key: Path
    both: Path
    store: Path


class Authority:
    """Signs certificates below ``folder``; clients trust ``ca``."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self._cert = (
            _builder(name, name, self._key.public_key(), _DAY)
            .add_extension(constraints, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .add_extension(_usage(signs=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca = folder / f"{name}.pem"
        self.ca.write_bytes(self._cert.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, name: str, host: str = "127.0.0.1", *, valid: timedelta = _DAY, password: bytes = b"storepass"
    ) -> Certificate:
        """A certificate of a server at ``host``, and of a client with the common name ``name``."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        cert = (
            _builder(name, self._name, key.public_key(), valid)
            .add_extension(x509.SubjectAlternativeName([_host(host)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(usage, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        made = Certificate(*(self._folder / f"{self._name}-{name}{end}" for end in (".crt", ".key", ".pem", ".p12")))
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        chain = cert.public_bytes(serialization.Encoding.PEM)
        made.cert.write_bytes(chain)
        made.key.write_bytes(secret)
        made.both.write_bytes(secret + chain)
        encryption = serialization.BestAvailableEncryption(password)
        made.store.write_bytes(
            pkcs12.serialize_key_and_certificates(name.encode(), key, cert, [self._cert], encryption)
        )
        return made


def _builder(name: str, issuer: str, key: ec.EllipticCurvePublicKey, valid: timedelta) -> x509.CertificateBuilder:
    """Valid since two days ago, and for ``valid`` from now on; expired if that is negative."""
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * _DAY)
        .not_valid_after(now + valid)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
