"""The governor's benchmark: what each tenant gets of a GPU (docs/gpu-time.md, "How it is measured")."""
