"""Failing assertions of the exported suite say what they compared, like those of any test."""

import pytest

pytest.register_assert_rewrite("holdfast.store.conformance")
