"""`python -m jupyter_vgpu.service`: what the hub starts."""

import os
import sys

from jupyter_vgpu.service.early import EarlyAnswer

try:
    early = EarlyAnswer(os.environ.get("JUPYTERHUB_SERVICE_URL", ""))
except (ValueError, OSError) as error:
    sys.exit(f"jupyter_vgpu.service: JUPYTERHUB_SERVICE_URL: {error}; the hub sets it")

# Slow.
from jupyter_vgpu.service.app import main

main(early.hand_over)
