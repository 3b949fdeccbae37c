"""Certificates of an authority made for one test run, and a proxy behind TLS."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import NoEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.x509 import load_pem_x509_certificate

from fencepost import Site

LOOPBACK = "127.0.0.1"
BUFFER_BYTES = 1 << 16


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


@contextmanager
def terminated(site: Site, authority: Authority) -> Iterator[Site]:
    """`site` behind TLS: what arrives is decrypted and passed on byte for byte, Host included."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.certificate_file, authority.key_file)
    context.set_alpn_protocols(["http/1.1"])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_proxy, to_proxy = await asyncio.open_connection(*site.address)
        await asyncio.gather(pump(reader, to_proxy), pump(from_proxy, writer))

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(serve, LOOPBACK, 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        port = server.sockets[0].getsockname()[1]
        yield Site(f"https://{LOOPBACK}:{port}", site.access_key, site.secret_key, authority.ca_file)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))


async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Passes on until either side ends, then ends the other."""
    with contextlib.suppress(OSError):
        while data := await source.read(BUFFER_BYTES):
            target.write(data)
            await target.drain()
    target.close()
