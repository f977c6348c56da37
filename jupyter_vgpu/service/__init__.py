"""`/services/vgpu/`: who holds what on which device, live, and the way to take it away again.

A process of its own beside the hub, started by it (`jupyter_vgpu.hub.setup`) as the hub's user. It knows the node's
agent, the hub's ledger and the hub's REST API, and nothing of the hub's inside. Everybody who asks is sent through the
hub (OAuth in a browser, tokens in scripts); what they may see and do is in `rights`.
"""
