"""Forwards to `holdfast.sync.remotes.conformance`."""

import warnings

from holdfast.sync.remotes.conformance import *  # noqa: F403

warnings.warn("import holdfast.sync.remotes.conformance instead", DeprecationWarning, stacklevel=2)
