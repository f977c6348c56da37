"""Print the bytes that a browser loads of the panel, per file; fail where they are too many."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "jupyter_vgpu" / "labextension"
MOST_BYTES = 150_000


def main() -> int:
    """Return 0 when the panel is small enough."""
    sizes = {path: path.stat().st_size for path in sorted((FOLDER / "static").glob("*.js"))}
    if not sizes:
        print(f"there is no panel in {FOLDER}: `make labextension` builds it", file=sys.stderr)
        return 1
    for path, size in sizes.items():
        print(f"{size:>9,}  {path.name}")
    total = sum(sizes.values())
    print(f"{total:>9,}  bytes in all, of at most {MOST_BYTES:,}")
    return int(total > MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
