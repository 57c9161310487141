"""The contract: its documents, its rules, and the text's own examples."""

from __future__ import annotations

import contract_documents
from contract_documents import documents, edits

from holdfast.formats.conformance import FormatConformance
from holdfast.formats.contract import FORMAT

assert contract_documents


class TestContract(FormatConformance):
    rules = FORMAT
    documents = documents()
    edits = edits()
