"""Files and commits that commands make are recorded in a team's store as in a file."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

from holdfast.sessions.changes.compare import compare_due
from tests.postgres.machines import LONGEST, Desk
from tests.postgres.team import Team

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.postgres.server import Server


def test_file_and_commit_of_a_command_are_recorded_on_a_server(
    postgres: Server, database: str, tmp_path: Path
) -> None:
    ada = Desk(tmp_path, Team(postgres, database).url(), "ada")
    ada.connect()
    git = ["git", "-C", str(ada.project), "-c", "user.name=A", "-c", "user.email=a@b"]

    def run(*words: str) -> None:
        subprocess.run([*git, *words], check=True, capture_output=True, timeout=LONGEST)
        time.sleep(0.03)

    run("init", "-q")
    (ada.project / "cart.py").write_text("total = 1\n")
    run("add", ".")
    run("commit", "-qm", "Begin")
    ada.hook("tell", "UserPromptSubmit", prompt="Fix the cart", prompt_id="p1")
    with ada.keeper() as keeper:
        keeper.collect()
        compare_due(keeper)
    (ada.project / "cart.py").write_text("total = 2\n")
    run("commit", "-qam", "Fix the total")
    ada.hook("tell", "PostToolUse", tool_name="Bash", tool_use_id="u", tool_input={"command": "git commit -am Fix"})
    ada.hook("tell", "Stop", last_assistant_message="Done")
    with ada.keeper() as keeper:
        keeper.compare()
        session = keeper.session().document()
        answers = keeper.why("cart.py:1").sessions
    assert [(file.path, file.by) for file in session.files] == [("cart.py", "command")]
    assert [(commit.subject, commit.conversation) for commit in session.commits] == [("Fix the total", "talk-1")]
    assert [(answer.id, answer.certainty) for answer in answers] == [(session.id, "certain")]
    assert (ada.waiting(), ada.errors()) == (0, [])
