"""The run store: runs by the names of their experiments, shared by any number of processes and hosts."""

from afterfit._sweeps.store.store import Store

__all__ = ["Store"]
