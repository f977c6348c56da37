"""Whether this machine has an NVIDIA driver: what is said where there is none can only be seen without one."""

from __future__ import annotations

from pathlib import Path

import pytest

without_a_driver = pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is a driver here")
