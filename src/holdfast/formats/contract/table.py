"""The fields of the contract's four kinds of file.

Schemas, problems and quick verdicts follow from these tables; repairs are in `repairs.py` and `repairs_plan.py`.
"""

from __future__ import annotations

from typing import Final

from holdfast.formats.contract import rules
from holdfast.formats.contract.fields import HISTORY, MODELS, PLAN, REGISTRY, STATE, VERSION
from holdfast.formats.table import (
    OPTIONAL,
    REQUIRED,
    REQUIRED_OR_NULL,
    Count,
    Exactly,
    Field,
    Nested,
    Object,
    Objects,
    Text,
    Texts,
    UtcTime,
    Word,
)

_FEATURE_ID: Final = Text("^[a-z0-9]+(-[a-z0-9]+)*-[0-9]{4}-[0-9]{2}-[0-9]{2}$")
_NONBLANK: Final = Text(blank=False)
_NONEMPTY: Final = Text(empty=False)
_TIME: Final = UtcTime(millis=False)

_STATE: Final = Object(
    "state", "Where a feature's session stands: the task at hand, the model that works on it, and when.", (
    Field("version", Exactly(VERSION), "The version of the contract. A file without one is of version 1.0.",
          OPTIONAL),
    Field("feature_id", _FEATURE_ID, "The feature: its slug and the day it began. Also the name of its directory.",
          REQUIRED),
    Field("implementation_plan", _NONBLANK, "Where the plan is, relative to the feature's directory.", OPTIONAL),
    Field("history_log", _NONBLANK, "Where the history is, relative to the feature's directory.", OPTIONAL),
    Field("current_state", Nested(Object("current_state", "What is being done now.", (
        Field("active_task", _NONEMPTY,
              "The id of the plan's task that is being worked on; null when there is none.", REQUIRED_OR_NULL),
        Field("model_in_use", Word(MODELS), "The model that does the work.", REQUIRED),
        Field("started_at", _TIME, "When the session began.", REQUIRED),
        Field("last_updated", _TIME, "When this file was last brought up to date. Never earlier than before.",
              REQUIRED),
    ), inline=True)), "", REQUIRED),
), title="Contract: state.yaml", rules=(rules.state,), terse=True)  # fmt: skip

_TASK: Final = Object("task", "One piece of work.", (
    Field("task_id", _NONEMPTY, "Its id, unique in the plan.", REQUIRED),
    Field("description", _NONBLANK, "What is to be done.", REQUIRED),
    Field("agent", Text(), "Who does it; null while nobody is assigned.", REQUIRED_OR_NULL),
    Field("status", Word(("pending", "in_progress", "completed", "blocked")), "How far it is.", REQUIRED),
    Field("started_at", _TIME, "When it was begun; null before that.", REQUIRED_OR_NULL),
    Field("completed_at", _TIME, "When it was done; null before that.", REQUIRED_OR_NULL),
    Field("artifacts", Texts(_NONEMPTY), "Files that came of it.", REQUIRED),
))  # fmt: skip

_PHASE: Final = Object("phase", "Tasks that belong together.", (
    Field("phase_id", _NONEMPTY, "Its id, unique in the plan.", REQUIRED),
    Field("name", _NONBLANK, "Its name for people.", REQUIRED),
    Field("tasks", Objects(_TASK), "Its tasks, in order.", REQUIRED),
))  # fmt: skip

_PLAN: Final = Object("plan", "What a feature is, and the phases and tasks that lead there.", (
    Field("feature", Nested(Object("feature", "The feature itself.", (
        Field("id", _FEATURE_ID, "The feature's id, as in state.yaml.", REQUIRED),
        Field("name", _NONBLANK, "Its name for people.", REQUIRED),
        Field("description", Text(), "What it is about.", REQUIRED),
        Field("created_at", _TIME, "When the plan was made.", REQUIRED),
    ), inline=True)), "", REQUIRED),
    Field("phases", Objects(_PHASE), "The phases, in order.", REQUIRED),
), title="Contract: implementation-plan.yaml", rules=(rules.plan,), terse=True)  # fmt: skip

_REGISTRY: Final = Object("registry", "The features of a project, each listed once.", (
    Field("active_features", Objects(Object("entry", "One feature.", (
        Field("feature_id", _FEATURE_ID, "The feature's id, as in its state.yaml.", REQUIRED),
        Field("started_at", _TIME, "When work on it began.", REQUIRED),
        Field("last_active", _TIME, "When something last happened to it.", REQUIRED),
        Field("status", Word(("active", "paused", "completed")), "Whether it is being worked on.", REQUIRED),
    ))), "One entry for each feature.", REQUIRED),
), title="Contract: active-features.yaml", rules=(rules.registry,), terse=True)  # fmt: skip

_LINE: Final = Object("line", "One command that was carried out, and how it went. Lines are only ever added.", (
    Field("timestamp", _TIME, "When it was carried out.", REQUIRED),
    Field("command", _NONBLANK, "Its name.", REQUIRED),
    Field("arguments", Text(), "What it was given.", REQUIRED),
    Field("model", Word(MODELS), "The model at work.", REQUIRED),
    Field("agent", _NONBLANK, "Who carried it out.", REQUIRED),
    Field("task_id", _NONEMPTY, "The task it belonged to; null when there was none.", REQUIRED_OR_NULL),
    Field("status", Word(("success", "failure")), "How it went.", REQUIRED),
    Field("duration_ms", Count(), "How long it took, in milliseconds.", REQUIRED),
    Field("error", _NONBLANK, "What went wrong: with failure always, otherwise never.", OPTIONAL),
), title="Contract: one line of history.jsonl", rules=(rules.line,), terse=True)  # fmt: skip

TABLES: Final = {STATE: _STATE, PLAN: _PLAN, REGISTRY: _REGISTRY, HISTORY: _LINE}
