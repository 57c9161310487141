"""The use cases: the one API through which programs and every surface act on sessions."""

from holdfast.keeper.keeper import Keeper
from holdfast.keeper.session import KeptSession

__all__ = ["Keeper", "KeptSession"]
