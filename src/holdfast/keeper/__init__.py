"""The keeper: the one API through which programs and every surface act on sessions."""

from holdfast.keeper.keeper import Keeper
from holdfast.keeper.session import SessionHandle

__all__ = ["Keeper", "SessionHandle"]


def __getattr__(name: str) -> object:
    if name == "KeptSession":
        import warnings

        warnings.warn("KeptSession is called SessionHandle now", DeprecationWarning, stacklevel=2)
        return SessionHandle
    raise AttributeError(f"module 'holdfast.keeper' has no attribute {name!r}")
