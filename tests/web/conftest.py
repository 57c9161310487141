"""What tests of the dashboard share: a real browser, where there is one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, sync_playwright

_OURS: Final = bool(os.environ.get("HOLDFAST_CI"))  # now: the tests themselves have nobody's environment
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if program is None:
        if _OURS:
            pytest.fail("there is no Chromium: .ci/run installs it")
        pytest.skip("there is no Chromium on the PATH")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield made
        made.close()
