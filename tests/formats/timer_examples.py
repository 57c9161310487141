"""The timer text's own documents as data: its three complete examples, and the state a session begins in."""

from __future__ import annotations

import json

from holdfast.formats.base import Document
from tests.support import spec_examples

TYPICAL: Document = json.loads(spec_examples.TIMER_ONE_PAUSE)
COMPLEX: Document = json.loads(spec_examples.TIMER_SEVERAL_PAUSES)
TIMEOUT: Document = json.loads(spec_examples.TIMER_TIMED_OUT)
INITIAL: Document = json.loads(spec_examples.TIMER_JUST_STARTED)
