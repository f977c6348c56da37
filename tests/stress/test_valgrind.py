"""Every byte that the library reads in a real program is there, and has been written before."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_memcheck_finds_nothing_in_a_program_that_does_everything(stressed: Any, tenant_program: Path) -> None:
    done = subprocess.run(
        ["valgrind", "--tool=memcheck", "--error-exitcode=99", "--leak-check=no", "-q", tenant_program, "5", "1", "0"],
        env=stressed.environment,
        capture_output=True,
        text=True,
        timeout=500,
    )

    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 0, "it did something"
