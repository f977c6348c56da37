"""The machine that is measured: which card, which driver, which source."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What is built into the libraries, and the agent.
PRODUCT = ("native/CMakeLists.txt", "native/include", "native/src", "native/agent", "native/governor", "jupyter_vgpu")
SOURCE_SUFFIXES = {".c", ".h", ".S", ".def", ".py", ".txt"}


@dataclass(frozen=True)
class Card:
    """The GPUs of this machine, all taken to be alike.

    Attributes:
        name: NVML's, of the first.
        driver: Version of the driver.
        count: How many there are.
    """

    name: str
    driver: str
    count: int

    @property
    def file_name(self) -> str:
        """The name as part of a file's name."""
        return self.name.replace(" ", "-").lower()


def card() -> Card:
    """Return what GPUs this machine has.

    Raises:
        OSError: There is no `nvidia-smi`.
        subprocess.CalledProcessError: It finds no GPU.
    """
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    lines = subprocess.run(query, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    name, driver = lines[0].split(", ")
    return Card(name, driver, len(lines))


def commit() -> str:
    """Return the commit of this checkout, "-dirty" added where the product differs; "unknown" without its history."""
    head = _git("rev-parse", "--short", "HEAD")
    if not head:
        return "unknown"
    return head + ("-dirty" if _git("status", "--porcelain", "--", *PRODUCT) else "")


def _git(*arguments: str) -> str:
    """Return what git says of this checkout; "" where there is no git, or no history."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def source() -> str:
    """Return a digest of the product's source, 12 hex digits: the same on machines that have the same, git or not."""
    digest = hashlib.sha256()
    places = [ROOT / name for name in PRODUCT]
    found = [path for place in places for path in ([place] if place.is_file() else place.rglob("*"))]
    for path in sorted(path for path in found if path.suffix in SOURCE_SUFFIXES and path.is_file()):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
