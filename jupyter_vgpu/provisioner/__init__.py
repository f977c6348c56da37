"""A Jupyter kernel in a part of its user's slice: "this notebook: 2 GiB".

`jupyter_client` finds the provisioner as `vgpu`; a kernel spec chooses it:

    {"argv": [...], "metadata": {"kernel_provisioner": {
        "provisioner_name": "vgpu", "config": {"memory": "2GiB"}}}}

It runs in the process that starts Jupyter kernels (the Jupyter server, or
anything else with `jupyter_client`), which must itself run in a slice.
"""

from jupyter_vgpu.provisioner.kernel import VGPUProvisioner

__all__ = ["VGPUProvisioner"]
