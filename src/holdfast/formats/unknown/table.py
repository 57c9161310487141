"""The table of what keys in hand-made session files mean, by the words of a key and the shape of its value.

Keys are compared by their words, so `tasksCompleted`, `completed-tasks` and `Completed task` are the same. To
add a name, extend a row or add one: the first row whose words and shape both match counts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from holdfast.core.canonical import Json
from holdfast.formats.unknown import values

Meaning: TypeAlias = Literal[
    "goal", "done", "doing", "to do", "blocked", "tasks", "decision", "error", "note", "summary", "progress",
    "status", "branch", "commit", "began", "updated", "id", "model", "scope", "tags", "project", "modified files",
    "created files", "deleted files", "sessions", "worked", "commits", "nothing",
]  # fmt: skip


class Keys(NamedTuple):
    """What some keys mean, if their values have a certain shape.

    `keys` are alternatives separated by commas. `*` matches any words or none, `a|b` for one of two words, `a?`
    for a word that may be missing, `<done>` for one of a group of words. Words are in the singular.
    """

    meaning: Meaning
    keys: str
    shape: Callable[[Json], bool]
    # Of several goals, the one with the lowest rank counts.
    rank: int = 0


# Synonyms.
GROUPS: Final[Mapping[str, str]] = {
    "done": "completed|complete|done|finished|accomplished|accomplishment|achievement|achieved|resolved|fixed|solved|"
            "shipped|implemented|delivered|checked",
    "to do": "pending|next|todo|remaining|upcoming|future|planned|backlog|queued|outstanding|incomplete|unfinished|"
             "deferred|postponed|tomorrow",
    "task": "task|subtask|step|item|action|todo|ticket|work",
    "unit": "feature|story|slice|milestone|phase|epic|sprint|stage|checkpoint|objective|goal|deliverable|iteration|"
            "requirement|bug|fix",
    "now": "current|active|ongoing",
    "remark": "note|remark|observation|learning|lesson|finding|gotcha|reminder|comment|question|caveat|tip|warning|"
              "concern|risk|important",
    "earlier": "previous|prior|past|old|earlier|archived|archive",
    "changed": "modified|changed|edited|touched|updated|uncommitted|dirty",
    "length": "hour|minute|min|second|sec|ms",
    "at": "at|on|time|date|timestamp|ts|utc",
    # Names of numbers, places and times: no work is listed under these.
    "measure": "count|total|number|percent|percentage|pct|rate|ratio|minute|hour|ms|second|duration|budget|token|"
               "cost|score|id|url|path|dir|directory|port|version|criteria|definition|threshold|limit|max|min|date|"
               "time|hash|branch|commit|config|setting|type|mode|flag|enabled|level|severity",
    # Names of objects that have nothing to do with the session, whatever their keys.
    "apart": "config|configuration|setting|environment|env|metric|stat|statistic|kpi|threshold|budget|token|cost|"
             "dependency|stack|service|server|database|deployment|documentation|doc|schema|index|tool|test|testing|"
             "quality|ci|docker|performance|checksum|template|convention|preference|usage|legend|glossary|agent|file|"
             "directory|folder|structure",
}  # fmt: skip

# Translations to German, French, Spanish, Portuguese, Italian, Chinese and Japanese: regular expressions, separated
# by commas, in lower case. Accents may be left out. Scripts without spaces are matched inside words.
LANGUAGES: Final[Mapping[str, str]] = {
    "goal": "ziele?, zielsetzung, objectifs?, objetivos?, objectivos?, obiettiv[oi], 目标, 目標, 目的, ゴール",
    "next step": "nächste schritte?, nächster schritt, weiteres vorgehen, prochaines? étapes?, étapes? suivantes?, "
                 "próximos? pasos?, siguientes? pasos?, próximos? passos?, prossim[oi] pass[oi], 下一步, 后续步骤, "
                 "次のステップ, 次にやること, 今後の予定",
    "to do": "offen, offene (?:punkte|aufgaben|themen), zu erledigen, noch zu tun, à faire, pendientes?, por hacer, "
             "pendentes?, a fazer, por fazer, da fare, in sospeso, 未完成, 待办, 待辦, 未完了, 残タスク, やること",
    "in progress": "in arbeit, en cours, en curso, en progreso, em andamento, em curso, in corso, 进行中, 進行中, "
                   "作業中",
    "done": "erledigte?s?, fertig, abgeschlossene?s?, fait, terminée?s?, accomplie?s?, hecho, completad[oa]s?, "
            "terminad[oa]s?, feito, concluíd[oa]s?, fatt[oi], completat[oaie], 完成, 完了, 済み",
    "blocker": "blockiert, blockaden?, bloquée?s?, points? bloquants?, blocages?, bloquead[oa]s?, bloqueos?, "
               "bloqueios?, bloccat[oi], 阻塞, 障碍, ブロッカー",
    "decision": "entscheidung, entscheidungen, décisions?, decisión, decisiones, decisão, decisões, decision[ei], "
                "决定, 决策, 決定, 決策",
    "task": "aufgaben?, tâches?, tareas?, tarefas?, attività, compit[oi], 任务, 任務, タスク",
    "note": "notiz, notizen, anmerkung, anmerkungen, hinweise?, remarques?, notas?, observaciones, observações, "
            "appunti, 备注, 備註, 笔记, メモ, 備考",
}  # fmt: skip

TABLE: Final[tuple[Keys, ...]] = (
    # Other sessions.
    Keys("to do", "next|future|coming|following session, * for next|future session", values.has_work),
    Keys("done", "<done> session, <done> last|previous|this time|session *", values.is_list_of_text),
    Keys("sessions", "* session, * session <earlier>|history|log|list, session * history|log", values.is_list),
    Keys("nothing", "<earlier>, <earlier> *, * <earlier> session *", values.is_anything),
    Keys("nothing", "* history, * changelog, activity|work|session|phase|event|audit log", values.is_anything),
    # Decisions, except those that are still to be made.
    Keys("note", "open|pending|needed|required|undecided|unresolved decision|choice", values.is_remark),
    Keys("decision", "* decision|choice, * decision made|taken|log|so far, decision *, * decision|choice and *",
        values.is_remark),
    # Facts: the session's own only where the session is described.
    Keys("id", "session id, session, current session, current session id, id, session uuid|key", values.is_id),
    Keys("branch", "git? current|working|active|feature|session|work? branch name|context?", values.is_branch),
    Keys("commits", "git? session? commit, commit made|created|list|hash|sha, new commit", values.is_list_of_commits),
    Keys("commit", "git? last|latest|head|current? commit, * commit hash|sha|id, git? head sha|hash?, sha",
        values.is_commit),
    Keys("began", "current|last? session? start|started|began|begin|created <at>?, session? date", values.is_time),
    Keys("updated", "last? session|file|state? last? update|updated|modified|saved|save|activity|active|checkpoint|"
                   "seen|change|changed|ended|end|stopped|closed|generated|exported|recorded <at>?, "
                   "completed|finished <at>, last? session? timestamp|ts|time", values.is_time),
    Keys("worked", "total|session|actual? time spent|worked *, <length> spent|worked *, "
                  "total|actual? working|work|worked time|<length> *, session|work? duration <length>?",
        values.is_duration),
    Keys("model", "ai? model name|id?", values.is_name),
    Keys("scope", "scope, area, component, module", values.is_name),
    Keys("tags", "tag, label, keyword", values.is_list_of_text),
    Keys("progress", "* progress, * completion, completion|progress percentage|percent|pct, "
                    "percent|percentage complete?", values.is_fraction),
    Keys("status", "session? status|state, overall|current|completion|task|work status", values.is_name),
    # Files.
    Keys("modified files", "<changed> file|path *, * file|path <changed>, recent change, recent file *, file change",
        values.is_list_of_paths),
    Keys("created files", "created|new|added file|path *, * file|path created|added|new", values.is_list_of_paths),
    Keys("deleted files", "deleted|removed file|path *, * file|path deleted|removed", values.is_list_of_paths),
    Keys("nothing", "* <changed>|created|deleted|staged|untracked file", values.is_anything),
    # Work by status.
    Keys("nothing", "when|how|if|why|before|after *", values.is_anything),
    Keys("to do", "* not|un|be <done>|started *", values.has_work),
    Keys("nothing", "* <measure>, <done> at|by|on *, * <done> at|by|on", values.is_anything),
    Keys("done", "* <done> *, recent|latest|last|recently <task>|activity|change *, what was done, what we did, "
                "what was|we built, what changed, change made, work so far", values.has_work),
    Keys("to do", "* <to do> *, * to do *, follow up *, carry|carried forward|over *, open <task>|thread|loop *, "
                 "* action item, * left, what remain, immediate|suggested|recommended|required action *, "
                 "* action needed|required, ready to start, * need doing", values.has_work),
    Keys("blocked", "* blocker *, * blocked, blocked by|on|<task>|issue *, blocking, blocking <task>|issue|problem, "
                   "waiting for|on *, * impediment", values.has_work),
    Keys("doing", "* in progress *, wip *, * wip, doing, <task>|<unit> started", values.has_work),
    Keys("tasks", "<now> *", values.is_list_of_statuses),
    Keys("doing", "<now> <task> *", values.is_list_of_text),
    # The goal, best first.
    Keys("goal", "* goal, * objective, user|original|initial request|prompt|input|ask", values.is_goal, 1),
    Keys("goal", "currently? working on, <now>? session|work|working|main|primary|development? focus area?, "
                "<now> work|workstream|effort|initiative", values.is_goal, 2),
    Keys("doing", "<now> <task>|issue *, <now>, now, task, <task> name|title|description", values.is_single_goal, 3),
    Keys("goal", "session? title|topic|theme, session name|kind, headline, mission, purpose, aim, intent, what, "
                "request, prompt, input", values.is_single_goal, 3),
    Keys("goal", "<now>|project|development? feature|story|epic|sprint|phase|milestone|stage|workflow|release "
                "name|title|goal|description|kind?, session type", values.is_single_goal, 4),
    # Mixed lists: each entry has its own status.
    Keys("tasks", "* <task>, * <task> list, * priority, * plan, * checklist", values.is_task_list),
    Keys("tasks", "* <unit>, * <unit> status, roadmap, * issue", values.is_list_of_statuses),
    # Everything else.
    Keys("error", "* error *, * failure, problem, problem encountered|hit|found", values.is_text),
    Keys("note", "* <remark> *, known|open|<now>? issue, * known issue", values.is_remark),
    Keys("note", "context, * insight, handoff *, * instruction, "
                "resume|recovery|restart prompt|context|message|point|summary|hint", values.is_text),
    Keys("summary", "last|latest|current? session|work|progress|status? summary, description, overview",
        values.is_text),
    Keys("project", "<now>? project|app|repo|repository name|title?", values.is_goal),
    Keys("nothing", "<apart> *, * <apart>", values.is_anything),
    Keys("tasks", "*", values.is_marked_work),
)  # fmt: skip

# Names of objects that describe the session itself or its place in git: a date or branch in other objects, or in
# lists (earlier sessions, phases, agents), is not the session's.
OF_SESSION: Final = frozenset((
    "session", "current", "last", "state", "status", "info", "information", "meta", "metadata", "data", "timing",
    "time", "timestamp", "context", "execution", "handoff", "work", "working", "progress", "header", "tracking",
    "tracker", "checkpoint",
))  # fmt: skip
OF_GIT: Final = OF_SESSION | {
    "git", "repo", "repository", "vcs", "version", "source", "control", "workspace", "branch", "commit", "task",
    "project", "timeline", "focus", "delivery",
}  # fmt: skip
OF_PROGRESS: Final = OF_SESSION | {"task", "overall", "total", "completion", "project"}

_SCRIPTS: Final = "\u2e80"  # from here on, scripts are written without spaces
_BREAK: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\W_]+")
_MAX_KEY_LENGTH: Final = 100
_THIS: Final = re.compile(r"(?:(?:for|in|during|of) )?this session \Z|\A(?:in )?this session ")


@lru_cache(maxsize=4096)
def words_of(key: str) -> tuple[str, ...]:
    """The words of a key in lower case, singular and English: `nextSteps`, `Next Steps` and `Nächste Schritte` are
    the same.
    """
    words = _plain(" ".join(_BREAK.split(key[:_MAX_KEY_LENGTH])))
    english = _FOREIGN_WORDS.sub(lambda match: f" {_TRANSLATIONS[(match.lastindex or 0) - 1][1]} ", words)
    return tuple(map(_singular, english.split()))


def _plain(text: str) -> str:
    """Lower case without accents."""
    small = text.lower()
    return small if small.isascii() else re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", small))


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us", "is")) else word


def row_of(key: str, value: Json) -> Keys | None:
    """The row for this key and value; None when the table has none."""
    return next((row for row in rows_named(key) if row.shape(value)), None)


@lru_cache(maxsize=4096)
def rows_named(key: str) -> tuple[Keys, ...]:
    """The rows that match the words of a key, whatever its value. The last row matches any key."""
    # "this session" adds no meaning.
    words = "".join(f"{word} " for word in words_of(key))
    plain = _THIS.sub("", words) or words
    return tuple(row for row, pattern in zip(TABLE, _PATTERNS, strict=True) if plain and pattern.fullmatch(plain))


def _compile_pattern(keys: str) -> re.Pattern[str]:
    filled = re.sub("<([^>]+)>", lambda group: GROUPS[group[1]], keys)
    return re.compile("|".join("".join(map(_word, alternative.split())) for alternative in filled.split(",")))


def _word(written: str) -> str:
    if written == "*":
        return r"(?:\w+ )*"
    return f"(?:(?:{written[:-1]}) )?" if written.endswith("?") else f"(?:{written}) "


def _one_of(expressions: Iterable[str]) -> str:
    return "|".join(f"({expression})" for expression in expressions)


# Longest first: `未完成` is not `完成`. Scripts with spaces come before those without.
_TRANSLATIONS: Final = sorted(
    ((_plain(spelled), english) for english, words in LANGUAGES.items() for spelled in words.split(", ")),
    key=lambda entry: (entry[0] > _SCRIPTS, -len(entry[0])),
)
_SPACED: Final = _one_of(spelled for spelled, _ in _TRANSLATIONS if spelled < _SCRIPTS)
_UNSPACED: Final = _one_of(spelled for spelled, _ in _TRANSLATIONS if spelled > _SCRIPTS)
_FOREIGN_WORDS: Final = re.compile(rf"\b(?=[a-z])(?:{_SPACED})\b|(?=[{_SCRIPTS}-\uffff])(?:{_UNSPACED})")
_PATTERNS: Final = tuple(_compile_pattern(row.keys) for row in TABLE)
