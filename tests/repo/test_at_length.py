"""`tools/at-length.sh`, which runs what set-up takes long with: silent if all is well, and clear if not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "at-length.sh"


def run(log: Path, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, log, "bash", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )


def test_what_succeeds_is_not_heard_and_kept(tmp_path: Path) -> None:
    log = tmp_path / "folder" / "log"

    ran = run(log, "echo word; echo other >&2")

    assert (ran.returncode, ran.stdout) == (0, "")
    assert "word" not in ran.stderr
    assert "other" not in ran.stderr
    assert log.read_text() == "word\nother\n"


def test_what_fails_keeps_its_status_and_shows_the_end_of_what_it_said(tmp_path: Path) -> None:
    ran = run(tmp_path / "log", "seq 1000; exit 7")

    assert ran.returncode == 7
    assert "\n1000\n" in ran.stderr
    assert "\n1\n" not in ran.stderr
    assert f"all it said is in {tmp_path / 'log'}" in ran.stderr
    assert ran.stderr.count("==>") == 1, "no guess where nothing is known"


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        pytest.param(
            "E: Temporary failure resolving 'deb.debian.org'", "could not be reached", id="apt without a network"
        ),
        pytest.param(
            "Failed to establish a new connection: [Errno -3]", "could not be reached", id="pip without a network"
        ),
        pytest.param("npm error code EAI_AGAIN", "could not be reached", id="npm without a network"),
        pytest.param(
            "SSLCertVerificationError: CERTIFICATE_VERIFY_FAILED", "PIP_CERT=", id="pip and a company's certificate"
        ),
        pytest.param(
            "RequestError: self signed certificate in certificate chain", "NODE_EXTRA_CA_CERTS=", id="yarn and one"
        ),
        pytest.param("OSError: [Errno 28] No space left on device", "the disk is full", id="a full disk"),
    ],
)
def test_what_a_newcomer_can_do_about_it_is_said(tmp_path: Path, said: str, hint: str) -> None:
    ran = run(tmp_path / "log", f'echo "{said}"; exit 1')

    assert ran.returncode == 1
    assert hint in ran.stderr.partition("==> that failed")[2]
