"""The node agent: devices, claims and limits of one GPU node.

The only privileged process. Everything runs in one event loop that never waits for a tenant;
what may block (looking into processes, writing the state) has its own thread.
"""
