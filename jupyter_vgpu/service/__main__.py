"""`python -m jupyter_vgpu.service`: what the hub starts."""

from jupyter_vgpu.service.app import main

main()
