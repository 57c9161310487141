"""Taking our own entries out of a settings file that somebody may have edited since: whatever else stands in it
stays, byte for byte. They are known by the command line in them; the receipt of `jsonedit` tells what was made for
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from holdfast.capture.jsonedit import Path, Receipt
from holdfast.capture.jsontree import Document, Member, Node
from holdfast.capture.serving import called

# What is left of a line has more than blanks in it.
_LINE_GOES_ON: Final = re.compile(r"[ \t]*+[^ \t\r\n]")
Ours = Callable[[str], bool]


def holds(text: str, ours: Ours, file: str) -> bool:
    """Whether anything of ours stands in it."""
    return any(ours(found) for found in texts(text, file))


def texts(text: str, file: str) -> Iterator[str]:
    """Every text in it that is a value, and what is started by each entry that starts something."""
    document = Document(text, file)
    left = [document.root] if document.root is not None else []
    while left:
        node = left.pop()
        if isinstance(node.value, str):
            yield node.value
        elif document.is_object(node) and node.child("command") is not None:
            yield called(document.plain(node))
        left += [member.node for member in node.members or ()]


def remove(text: str, ours: Ours, receipt: Receipt | None, file: str, *, whole: Iterable[Path] = ()) -> str:
    """The text without what is ours, and without what was made for it and is of no use now.

    Without a receipt, whatever becomes empty by this is taken to be made for it. At the paths of `whole`, an object
    that holds our command is ours altogether, as it is in a list.
    """
    whole = {*whole, *(value.at for value in receipt.values)} if receipt is not None else set(whole)
    touched: set[Path] = set()
    while True:
        document = Document(text, file)
        found = list(_found(document, document.root, (), ours, whole, touched)) if document.root is not None else []
        if not found:
            break
        text = _without(text, *found)
    text = _without_values(text, receipt, file)
    text = _without_empty(text, set(receipt.created) if receipt is not None else None, touched, file)
    return _gaps_again(text, receipt, file)


# ── what is ours ─────────────────────────────────────────────────────────────────────────────────────────


def _found(
    document: Document, node: Node, at: Path, ours: Ours, whole: set[Path], touched: set[Path]
) -> Iterator[tuple[Node, int]]:
    """The things to be taken out, at most one of each container: places are known anew afterwards."""
    members = node.members or []
    mine = [index for index, one in enumerate(members) if _is_ours(document, node, one, at, ours, whole)]
    if mine:
        touched.add(at)
        yield node, mine[-1]
    for index, one in enumerate(members):
        if index not in mine:
            yield from _found(document, one.node, _below(at, one), ours, whole, touched)


def _below(at: Path, member: Member) -> Path:
    # Places inside lists have no lasting name: nothing there is looked up again.
    return (*at, member.key if member.key is not None else "\0")


def _is_ours(document: Document, container: Node, member: Member, at: Path, ours: Ours, whole: set[Path]) -> bool:
    node = member.node
    if node.members is None:
        return isinstance(node.value, str) and ours(node.value)
    if document.is_list(container):
        return _is_entry(document, node, ours)
    if _below(at, member) in whole:
        return _is_entry(document, node, ours) or ours(called(document.plain(node)))
    return False


def _is_entry(document: Document, node: Node, ours: Ours) -> bool:
    """An object that is there for our command alone: it holds it, or a list of nothing else."""
    if not document.is_object(node):
        return False
    return any(
        (isinstance(one.node.value, str) and ours(one.node.value)) or _only_ours(document, one.node, ours)
        for one in node.members or ()
    )


def _only_ours(document: Document, node: Node, ours: Ours) -> bool:
    if not node.members:
        return False
    if document.is_object(node):
        return False
    return all(
        (isinstance(one.node.value, str) and ours(one.node.value)) or _is_entry(document, one.node, ours)
        for one in node.members
    )


# ── taking out ───────────────────────────────────────────────────────────────────────────────────────────


def _without(text: str, *things: tuple[Node, int]) -> str:
    """The text without these things of lists and objects, at most one of each."""
    for start, end in sorted((cut for node, index in things for cut in _cuts(text, node, index)), reverse=True):
        text = text[:start] + text[end:]
    return text


def _cuts(text: str, node: Node, index: int) -> list[tuple[int, int]]:
    """Where one thing stands, with the blanks before it and the comma that nobody needs without it."""
    members = node.members or []
    one = members[index]
    comma = one.comma
    if comma is None and index:
        comma = members[index - 1].comma
    start = one.before
    if one.after_line and _LINE_GOES_ON.match(text, one.node.end if one.comma is None else one.comma + 1):
        start = one.start  # what follows must not become part of the comment
    return [(start, one.node.end)] + ([] if comma is None else [(comma, comma + 1)])


def _member(document: Document, at: Path) -> tuple[Node, int] | None:
    """The container and place of what a path leads to."""
    node = document.root
    found: tuple[Node, int] | None = None
    for key in at:
        if node is None or not document.is_object(node):
            return None
        member = node.child(key)
        if member is None or node.members is None:
            return None
        found, node = (node, node.members.index(member)), member.node
    return found


def _node(document: Document, at: Path) -> Node | None:
    if not at:
        return document.root
    found = _member(document, at)
    return None if found is None else (found[0].members or [])[found[1]].node


def _is_bare(document: Document, node: Node) -> bool:
    return node.members == [] and not document.text[node.start + 1 : node.end - 1].strip()


def _without_values(text: str, receipt: Receipt | None, file: str) -> str:
    """Values that we set and nobody changed. In a container of ours that others use by now, they may rely on them."""
    values = receipt.values if receipt is not None else []
    for value in values:
        document = Document(text, file)
        found = _member(document, value.at)
        if receipt is None or found is None:
            continue
        container, index = found
        members = container.members or []
        if document.plain(members[index].node) != value.value:
            continue
        set_here = {one.at[-1] for one in values if one.at[:-1] == value.at[:-1]}
        others = [one for one in members if one.key not in set_here]
        rest = [one for one in others if not _is_bare_created(document, one, value.at, receipt)]
        if rest and value.at[:-1] in receipt.created:
            continue
        text = _without(text, found)
    return text


def _is_bare_created(document: Document, member: Member, beside: Path, receipt: Receipt) -> bool:
    """Whether a neighbour is one of our own containers with nothing of anybody's left in it."""
    at = (*beside[:-1], member.key or "")
    if at not in receipt.created or member.node.members is None:
        return False
    return all(_is_bare_created(document, one, (*at, ""), receipt) for one in member.node.members)


def _without_empty(text: str, created: set[Path] | None, touched: set[Path], file: str) -> str:
    """Containers that were made for us and are empty, from the inside out."""
    left = set(created) if created is not None else {at for at in touched if "\0" not in at}
    while left:
        at = max(left, key=lambda path: (len(path), path))
        left.remove(at)
        if not at:
            continue
        document = Document(text, file)
        found, node = _member(document, at), _node(document, at)
        if found is None or node is None or not _is_bare(document, node):
            continue
        text = _without(text, found)
        if created is None:
            left.add(at[:-1])
    return text


def _gaps_again(text: str, receipt: Receipt | None, file: str) -> str:
    """Between brackets that are empty again stands what stood there before."""
    for gap in reversed(receipt.gaps) if receipt is not None else ():
        document = Document(text, file)
        node = _node(document, gap.at)
        if node is None or node.members != []:
            continue
        if receipt is not None and gap.at == () and () in receipt.created:
            if _is_bare(document, node):  # the brackets themselves are ours
                rest = text[: node.start] + text[node.end :]
                text = gap.text if rest.strip() == gap.text.strip() else rest
        elif text[node.start + 1 : node.end - 1].strip() == gap.text.strip():
            text = text[: node.start + 1] + gap.text + text[node.end - 1 :]
    return text
