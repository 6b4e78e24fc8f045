"""Motet's executor: collectives between processes, by programs made for the network.

It is a backend of torch.distributed too: torch 2.5 and later know it by name, before that `import motet.torch` makes it known; see
docs/torch.md.
"""
from ._motet import Communicator, Handle, LostError, MotetError, Store, __version__

__all__ = ["Communicator", "Handle", "LostError", "MotetError", "Store", "__version__"]


def _announce():
    """Makes the backend's name known. torch calls this when it is imported, because pyproject.toml names it as one of `torch.backends`;
    the rest is imported only when a group is made, so that who does not use it hardly pays for it."""
    import torch.distributed as dist

    if dist.is_available() and not hasattr(dist.Backend, "MOTET"):
        dist.Backend.register_backend("motet", _create, extended_api=True, devices=["cpu", "cuda"])


def _create(opts, backend_options=None):
    from .torch import _create as create

    return create(opts, backend_options)
