"""`python -m jupyter_vgpu.cli`, for where the command is not on the path."""

from __future__ import annotations

import sys

from jupyter_vgpu.cli import main

sys.exit(main())
