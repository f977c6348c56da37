"""A package: what is started once for these tests ends with the last of them, not with the last of all."""
