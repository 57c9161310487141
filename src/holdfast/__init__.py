"""Holdfast keeps the sessions of AI coding agents.

`from holdfast import Keeper` is the whole library; see `holdfast.keeper`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.keeper import Keeper

__version__ = "0.1.0"
__all__ = ["Keeper", "__version__"]


def __getattr__(name: str) -> object:
    # Lazily: `holdfast --version` need not load the store.
    if name == "Keeper":
        from holdfast.keeper import Keeper

        return Keeper
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
