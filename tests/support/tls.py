"""Certificates of an authority made for one test run."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import NoEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.x509 import load_pem_x509_certificate

LOOPBACK = "127.0.0.1"


class Authority:
    """An authority and one server certificate by it, as files in `directory`."""

    def __init__(self, directory: Path) -> None:
        authority = trustme.CA()
        server = authority.issue_cert(LOOPBACK, "localhost")
        self.ca_file = directory / "ca.pem"
        self.certificate_file = directory / "server.pem"
        self.key_file = directory / "server.key"
        self.ca_file.write_bytes(authority.cert_pem.bytes())
        self.certificate_file.write_bytes(b"".join(blob.bytes() for blob in server.cert_chain_pems))
        self.key_file.write_bytes(server.private_key_pem.bytes())
        # Java reads no PEM here.
        trusted = PKCS12Certificate(load_pem_x509_certificate(authority.cert_pem.bytes()), b"fencepost test")
        self.ca_file.with_suffix(".p12").write_bytes(serialize_java_truststore([trusted], NoEncryption()))

    def settings(self) -> list[str]:
        """The proxy's arguments for a listener with this certificate."""
        return [
            f"--set=tls.certificate_file={self.certificate_file}",
            f"--set=tls.key_file={self.key_file}",
        ]
