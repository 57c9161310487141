"""Holdfast keeps the sessions of AI coding agents.

`from holdfast import Keeper` is the whole library; see `holdfast.keeper`.
"""

__version__ = "0.1.0"
