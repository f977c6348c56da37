"""What the benchmarks that need a node agent and tenants share."""
