"""Motet's executor: collectives between processes, by programs made for the network.

`import motet.torch` makes it a backend of torch.distributed; see docs/torch.md.
"""
from ._motet import Communicator, Handle, LostError, MotetError, Store, __version__

__all__ = ["Communicator", "Handle", "LostError", "MotetError", "Store", "__version__"]
