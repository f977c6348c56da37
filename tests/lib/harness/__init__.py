"""What tests of several folders start, ask and wait for. `pyproject.toml` puts `tests/lib` where Python finds it."""
