"""The certificates that the tests make are good enough for the strictest Python."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from harness.certificates import Authority


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_strict_client_accepts_what_the_tests_sign(tmp_path: Path, name: str) -> None:
    authority = Authority(tmp_path)
    certificate_file, key_file = authority.sign(name)
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(certificate_file, key_file)
    asking = ssl.create_default_context(cafile=authority.file)
    # The default since Python 3.13.
    asking.verify_flags |= ssl.VERIFY_X509_STRICT

    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(to_client, to_server, server_hostname=name)
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    # Each side says once what the other waits for.
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue

    assert client.getpeercert()
