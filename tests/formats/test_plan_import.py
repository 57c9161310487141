"""Plans from files: read carefully, imported once, moved on and never back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError, Invalid
from holdfast.formats.plan_import import LIMIT, ImportedPlan, PlannedTask, parse, read
from holdfast.formats.text import nodes
from holdfast.keeper.keeper import Keeper
from holdfast.keeper.session import SessionHandle

YAML = """\
feature:
  id: "search-2026-11-15"
  name: "Search"
  created_at: "2026-11-15T09:00:00Z"

phases:
  - phase_id: design
    name: Design
    tasks:
      - task_id: d1
        description: Choose the index   # a comment
        agent: architect
        status: completed
        started_at: null
        artifacts: ["docs/index.md", docs/why.md]
      - {task_id: 2, description: "Sketch: the API", status: in_progress, agent: null}
  - phase_id: build
    name: Build it
    tasks:
      - task_id: b1
        description: |
          Write it
          well
        status: blocked
        outcome: waits for d1
      - task_id: b2
        description: yes
"""
CHECKLIST = """\
# Search

Some words, and [a link](x).

- [ ] Before any phase
## Design
- [x] Choose the index
  - [X] compare them
    1. [ ] the fast one (id: fast)
## Notes
Nothing to do here.
```
- [ ] in a code block
```
## Build it ##
* [ ] **b1**: Write it
+ [ ] **With words:** stays text
- [y] no mark we know
"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[SessionHandle]:
    (tmp_path / "project").mkdir()
    with Keeper.open(str(tmp_path / "project"), home=str(tmp_path / "home"), actor="me", device="here") as keeper:
        yield keeper.start("Plan things")


def of(text: str, name: str = "plan.yaml") -> ImportedPlan:
    return parse(text.encode(), name)


def as_json(plan: ImportedPlan) -> str:
    """The same plan in the contract's words, as JSON."""
    phases = [{"phase_id": id_, "name": name, "tasks": [t for t in _tasks(plan, id_)]} for id_, name in plan.phases]  # noqa: C416
    return json.dumps({"feature": {"id": "x"}, "phases": phases, "tasks": list(_tasks(plan, None))}, indent=1)


def _tasks(plan: ImportedPlan, phase: str | None) -> Iterator[dict[str, object]]:
    for task in plan.tasks:
        if task.phase == phase:
            yield {
                "task_id": task.id, "description": task.text, "agent": task.agent, "status": task.status,
                "outcome": task.outcome, "artifacts": list(task.artifacts),
            }  # fmt: skip


def statuses(session: SessionHandle) -> dict[str, str]:
    return {task.id: task.status for task in session.document().tasks}


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────


def test_contracts_plan_is_read() -> None:
    """Phases and tasks with agents, statuses and artifacts; numbers and words stay as they are written."""
    plan = of(YAML)
    assert plan.phases == [("design", "Design"), ("build", "Build it")]
    assert plan.tasks == [
        PlannedTask(
            "d1", "Choose the index", "design", "architect", "completed", None, ("docs/index.md", "docs/why.md")
        ),
        PlannedTask("2", "Sketch: the API", "design", None, "in_progress"),
        PlannedTask("b1", "Write it\nwell\n", "build", None, "blocked", "waits for d1"),
        PlannedTask("b2", "yes", "build"),
    ]


def test_json_plan_is_the_same(tmp_path: Path) -> None:
    """The same plan as JSON is the same plan, under any name."""
    plan = of(YAML)
    for name in ("plan.json", "plan", "plan.yaml"):
        same = of(as_json(plan), name)
        assert (same.phases, same.tasks) == (plan.phases, plan.tasks)
    file = tmp_path / "plan.json"
    file.write_bytes(b"\xef\xbb\xbf" + as_json(plan).encode())
    assert read(str(file)).tasks == plan.tasks


def test_checklist_is_read() -> None:
    """Headings are phases, items tasks; ids are given or made from phase and position."""
    plan = of(CHECKLIST.replace("\n", "\r\n"), "PLAN.md")
    assert plan.phases == [("design", "Design"), ("build-it", "Build it")]
    assert plan.tasks == [
        PlannedTask("plan-1", "Before any phase", named=False),
        PlannedTask("design-1", "Choose the index", "design", status="completed", named=False),
        PlannedTask("design-2", "compare them", "design", status="completed", named=False),
        PlannedTask("fast", "the fast one", "design"),
        PlannedTask("b1", "Write it", "build-it"),
        PlannedTask("build-it-2", "**With words:** stays text", "build-it", named=False),
    ]
    assert of(CHECKLIST, "plan").tasks == plan.tasks


def test_phases_of_any_script_have_ids() -> None:
    """Headings that spell no ASCII word, or the same one, still get an id each."""
    plan = of("## 設計\n- [ ] a\n## C\n- [ ] b\n## C++\n- [ ] c\n## C\n- [ ] d\n", "x.md")
    assert plan.phases == [("phase-1", "設計"), ("c", "C"), ("c-2", "C++")]
    assert [task.id for task in plan.tasks] == ["phase-1-1", "c-1", "c-2-1", "c-2"]


def test_chosen_id_gives_way_to_a_given_one() -> None:
    """Where the file gave an id already, the next number is taken."""
    plan = of("- [ ] a (id: plan-2)\n- [ ] b\n", "x.md")
    assert [(task.id, task.text) for task in plan.tasks] == [("plan-2", "a"), ("plan-3", "b")]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("phases:\n- &x {phase_id: a}\n- *x\n", 2, "anchors"),
        ("phases:\n- phase_id: !!python/name:os.system a\n", 2, "tags"),
        ("phases: !!omap []\n", 1, "tags"),
        ("phases: []\nphases: []\n", 2, "duplicate key"),
        ("phases:\n- phase_id: a\n  phase_id: b\n", 3, "duplicate key"),
        ("phases:\n- phase_id: a\n- phase_id: a\n", 3, "not unique"),
        ("tasks:\n- task_id: a\n  description: x\n- task_id: a\n  description: x\n", 4, "not unique"),
        ("tasks:\n- task_id: ../x\n  description: x\n", 2, "cannot be a task"),
        ("tasks:\n- task_id: a\n  description: x\n  agent: -y\n", 4, "cannot be an agent"),
        ("tasks:\n- task_id: a\n  description: x\n  status: maybe\n", 4, "not the status"),
        ("tasks:\n- task_id: a\n  description: x\n  artifacts: [/etc/passwd]\n", 4, "outside"),
        ("tasks:\n- task_id: a\n", 2, "empty"),
        ("tasks:\n- description: a\n", 2, "missing"),
        ("tasks: x\n", 1, "list"),
        ("tasks:\n- x\n", 2, "mapping"),
        ("tasks:\n- task_id: [a]\n  description: x\n", 2, "text"),
        ("? [a]\n: b\n", 1, "key"),
        ("- a\n", 1, "mapping"),
        ("a: b\n", 1, "neither"),
        ("phases: []\n---\nphases: []\n", 2, "more than one"),
        ("phases: [\n", 2, "expected"),
        ("a: b: c\n", 1, "not allowed"),
        ("phases: []\nx: \x07\n", 2, "control|special"),
        ("\ta: b\n", 1, "found character"),
        ("a:\n" + "".join("  " * depth + "- \n" for depth in range(1, 3)) + "b: " + "[" * 100, 4, "deep"),
        ("", None, "empty"),
    ],
)
def test_yaml_problem_is_reported_with_its_line(text: str, line: int | None, why: str) -> None:
    """Everything that cannot be read, or should not be, is an error of the input that names file and line."""
    with pytest.raises(Invalid, match=f"(?i){why}") as caught:
        of(text)
    assert caught.value.file == "plan.yaml"
    assert (f"line {line}:" in caught.value.message) == (line is not None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"tasks": [', "line 1"),
        ('{"tasks": [],\n"tasks": []}', "line 2.*duplicate key"),
        ("[" * 100_000, "deep|expecting"),
        ('{"tasks": ' + "[" * 200 + "]" * 200 + "}", "deep"),
        ('{"tasks": [{"task_id": true, "description": "x"}]}', "text"),
        ('{"tasks": [{"task_id": 1, "description": "\\ud800"}]}', "UTF-8"),
        ("null", "mapping"),
    ],
)
def test_json_problem_is_reported(text: str, why: str) -> None:
    """The same goes for JSON."""
    with pytest.raises(Invalid, match=f"(?is){why}"):
        of(text, "plan.json")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("# Nothing\n", "no task"),
        ("- [ ] a (id: ../b)\n", "line 1"),
        ("## P\n\n- [ ] a (id: x)\n- [ ] b (id: x)\n", "line 4"),
        ("## " + "p" * 300 + "\n- [ ] a\n", "line 2"),
    ],
)
def test_checklist_problem_is_reported(text: str, why: str) -> None:
    """And for Markdown."""
    with pytest.raises(Invalid, match=why):
        of(text, "plan.md")


def test_files_that_would_take_too_much_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Size and number of parts are bounded, and text must be UTF-8."""
    file = tmp_path / "plan.md"
    file.write_bytes(b"x" * (LIMIT + 1))
    with pytest.raises(Invalid, match="larger"):
        read(str(file))
    with pytest.raises(Invalid, match="line 2: it is not valid UTF-8"):
        parse(b"tasks:\n\xff", "plan.yaml")
    monkeypatch.setattr(nodes, "MAX_PARTS", 20)
    for name in ("plan.yaml", "plan.json"):
        with pytest.raises(Invalid, match="parts"):
            of(json.dumps({"tasks": [{"task_id": str(number), "description": "x"} for number in range(20)]}), name)


@given(
    st.text(alphabet="-[]{}:,&*!|>'\"%@`#?~ \n\tx1\\ü\x00\x85\u2028", max_size=60),
    st.sampled_from(["yaml", "json", "md", ""]),
)
def test_nonsense_is_an_error_and_never_a_crash(text: str, ending: str) -> None:
    """Whatever is in the file, the answer is a plan or an error a person can read."""
    try:
        plan = of(text, f"plan.{ending}")
    except HoldfastError as error:
        assert "plan" in error.message  # noqa: PT017
    else:
        assert isinstance(plan.tasks, list)


# ── importing ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("text", "name"), [(YAML, "plan.yaml"), (CHECKLIST, "plan.md")])
def test_importing_twice_changes_nothing(session: SessionHandle, text: str, name: str) -> None:
    """The second import finds everything there and records nothing."""
    plan = of(text, name)
    session.import_plan(plan)
    document, events = session.document(), len(session.keeper.events(session.id))
    assert [(phase.id, phase.name) for phase in document.phases] == plan.phases
    assert [(task.id, task.text, task.phase, task.status) for task in document.tasks] == [
        (task.id, task.text, task.phase, task.status) for task in plan.tasks
    ]
    session.import_plan(plan)
    assert len(session.keeper.events(session.id)) == events


def test_outcome_and_artifacts_come_along(session: SessionHandle) -> None:
    """What a finished task made and why another is blocked is in the session."""
    session.import_plan(of(YAML))
    tasks = {task.id: task for task in session.document().tasks}
    assert tasks["d1"].artifacts == ["docs/index.md", "docs/why.md"]
    assert tasks["b1"].outcome == "waits for d1"


def test_task_moves_on_and_never_back(session: SessionHandle) -> None:
    """A later file completes what was open; an older file undoes nothing."""
    session.import_plan(of(YAML))
    done = YAML.replace("in_progress", "completed").replace("blocked", "completed")
    session.import_plan(of(done))
    assert statuses(session) == {"d1": "completed", "2": "completed", "b1": "completed", "b2": "pending"}
    session.drop_task("b2")
    session.import_plan(of(YAML))
    session.import_plan(of(done))
    assert statuses(session) == {"d1": "completed", "2": "completed", "b1": "completed", "b2": "dropped"}


def test_lines_of_a_checklist_may_move(session: SessionHandle) -> None:
    """A line put in between is one new task; those below it are recognised, ticked or not."""
    session.import_plan(of("## P\n- [ ] one\n- [ ] two\n- [ ] same\n- [ ] same\n", "a.md"))
    session.import_plan(of("## P\n- [ ] zero\n- [x] two\n- [ ] one\n- [ ] same\n- [ ] same\n", "a.md"))
    tasks = [(task.id, task.text, task.status) for task in session.document().tasks]
    assert tasks == [
        ("p-1", "one", "pending"), ("p-2", "two", "completed"), ("p-3", "same", "pending"),
        ("p-4", "same", "pending"), ("p-5", "zero", "pending"),
    ]  # fmt: skip


def test_task_with_a_secret_is_recognised_too(session: SessionHandle) -> None:
    """The text is stored without the secret, and still known the next time."""
    plan = of("- [ ] Use password=hunter2-and-more for the database\n", "a.md")
    session.import_plan(plan)
    session.import_plan(plan)
    (task,) = session.document().tasks
    assert "hunter2" not in task.text


def test_tasks_added_by_hand_are_left_alone(session: SessionHandle) -> None:
    """A task with an id of the plan stays as it is; one of ours gets the next number."""
    session.add_task("By hand", task_id="d1")
    session.add_task("Also by hand", task_id="plan-1")
    session.import_plan(of(YAML))
    session.import_plan(of("- [ ] new\n", "a.md"))
    texts = {task.id: task.text for task in session.document().tasks}
    assert (texts["d1"], texts["plan-1"], texts["plan-2"]) == ("By hand", "Also by hand", "new")
