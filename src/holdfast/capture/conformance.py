"""Forwards to `holdfast.conversations.conformance`."""

import warnings

from holdfast.conversations.conformance import *  # noqa: F403

warnings.warn("import holdfast.conversations.conformance instead", DeprecationWarning, stacklevel=2)
