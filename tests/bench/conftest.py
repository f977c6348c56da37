"""The benchmarks are programs, no package: their folder is put where Python finds it, last."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
