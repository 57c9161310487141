"""Git's configuration files, parsed without git: the settings that git reads, without any that name a program."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.machine.git import config
from holdfast.machine.git.config import GitSetting


def by_git(text: bytes) -> list[GitSetting] | None:
    done = subprocess.run(
        ["git", "config", "--file", "-", "--null", "--list"], input=text, capture_output=True, check=False
    )
    return config.parse_list(os.fsdecode(done.stdout)) if done.returncode == 0 else None


@pytest.mark.parametrize(
    "text",
    [
        "[core]\n\teol = lf\n",
        "[core] eol = lf ; why\n# nothing\n\tautocrlf\n",
        '[remote "origin"]\nurl = git@host:o/r.git # here\nfetch = +refs/heads/*:refs/remotes/origin/*\n',
        '[filter "a=b"]\nclean = "cat # no comment" ; a comment\n',
        '[a "quote\\"d \\\\ name"]\nkey = one\\\n two\\n\\tthree "  four  "   \n',
        "[Section.Dotted]\nKey-1 = VALUE\r\nother=\r\n",
        "\ufeff[core]\nbare = false\n",
        '[a]\nempty =\nblank = ""\nspaced = "a" x \n',
        "[a]b=c[d]\n[e]\nf = g\n",
        "",
    ],
)
def test_parse_agrees_with_git(text: str) -> None:
    """Comments, quotes, escapes, continued lines, dotted sections and keys without a value."""
    assert config.parse(text) == by_git(text.encode())


@pytest.mark.parametrize("text", ["[broken", '[a]\nb = "open\n', "[a]\nb = \\x\n", "[a]\n1 = 2\n", "[a]\n= 1\n"])
def test_parse_refuses_files_that_git_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="line"):
        config.parse(text)
    assert by_git(text.encode()) is None


names = st.text(st.characters(exclude_characters="\0\n", exclude_categories=["Cs"]), max_size=20)
values = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)


@given(st.lists(st.tuples(st.one_of(st.none(), names), values), max_size=5))
def test_rendered_settings_are_read_back(settings: list[tuple[str | None, str]]) -> None:
    """Whatever names and values contain, they open no section of their own."""
    wanted = [GitSetting("some", name, "key", value) for name, value in settings]
    assert config.parse(config.render(wanted)) == wanted


def test_rendered_settings_are_read_back_by_git() -> None:
    """Quotes, backslashes, line breaks and comment signs cannot become another setting."""
    hostile = 'x"\n[filter "y"]\n\tclean = "touch z" # \\ ; \t'
    wanted = [
        GitSetting("user", None, "name", hostile),
        GitSetting("remote", hostile.replace("\n", " "), "url", hostile),
    ]
    assert by_git(os.fsencode(config.render(wanted))) == wanted


def test_harmless_settings_are_those_of_the_list() -> None:
    """A value with anything but the expected words is dropped."""
    settings = config.parse(
        "[core]\neol = lf\nautocrlf = $(touch x)\nfsmonitor = x\nexcludesFile = ~/x\n[user]\nname = A; B\n"
        '[filter "x"]\nclean = x\n[remote "o"]\nurl = ext::x\nuploadpack = x\n[gpg]\nprogram = x\nformat = ssh\n'
    )
    kept = [f"{setting.path}={setting.value}" for setting in config.harmless_settings(settings)]
    assert kept == ["core.eol=lf", "user.name=A", "remote.url=ext::x", "gpg.format=ssh"]
    assert "core.excludesfile=~/x" in [
        f"{setting.path}={setting.value}" for setting in config.harmless_settings(settings, personal=True)
    ]


@pytest.mark.parametrize(
    ("text", "understood"),
    [
        ("", True),
        ("[core]\nrepositoryformatversion = 0\n[extensions]\nunheard-of = 1\n", True),
        ("[core]\nrepositoryformatversion = 1\n[extensions]\nobjectFormat = sha256\npartialClone = origin\n", True),
        ("[core]\nrepositoryformatversion = 1\n[extensions]\nrefStorage = reftable\n", True),
        ("[core]\nrepositoryformatversion = 1\n[extensions]\nrefStorage = files:///elsewhere\n", False),
        ("[core]\nrepositoryformatversion = 1\n[extensions]\nunheard-of = 1\n", False),
        ("[core]\nrepositoryformatversion = 2\n", False),
    ],
)
def test_layout_is_refused_for_unknown_formats_and_extensions(text: str, understood: bool) -> None:
    """They may change how a repository has to be read."""
    assert isinstance(config.layout(config.parse(text)), list) is understood
