"""Users and groups of this host."""

import grp
import os
import pwd
from types import SimpleNamespace

import pytest

from llmgwd.host import identity
from llmgwd.host.identity import Identity, Users

ME = pwd.getpwuid(os.geteuid())
USERS = {"llmgw": pwd.struct_passwd(("llmgw", "x", 990, 980, "", "/var/lib/llmgw", "/usr/sbin/nologin"))}
GROUPS = {"models": 970, "render": 109, "video": 44}


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A host with one user and three groups; the names that were looked up in it."""
    asked: list[str] = []

    def user(name: str) -> pwd.struct_passwd:
        asked.append(name)
        return USERS[name]

    def group(name: str) -> grp.struct_group:
        return grp.struct_group((name, "x", GROUPS[name], []))

    monkeypatch.setattr(pwd, "getpwnam", user)
    monkeypatch.setattr(grp, "getgrnam", group)
    monkeypatch.setattr(os, "getgrouplist", lambda name, gid: [gid, 44, 5000])
    return asked


def test_a_user_is_what_the_host_says() -> None:
    found = Users().find(ME.pw_name, "")
    assert (found.user, found.uid, found.gid, found.home, found.shell) == (
        ME.pw_name,
        ME.pw_uid,
        ME.pw_gid,
        ME.pw_dir,
        ME.pw_shell,
    )
    assert set(os.getgrouplist(ME.pw_name, ME.pw_gid)) <= set(found.groups)


def test_a_user_belongs_to_its_own_groups_and_those_of_the_accelerators(looked_up: list[str]) -> None:
    found = Identity("llmgw", 990, 980, (44, 109, 980, 5000), "/var/lib/llmgw", "/usr/sbin/nologin")
    assert Users().find("llmgw", "") == found


def test_a_group_takes_the_place_of_the_users_own(looked_up: list[str]) -> None:
    found = Users().find("llmgw", "models")
    assert (found.gid, found.groups) == (970, (44, 109, 970, 5000))


def test_a_host_may_have_no_groups_for_accelerators(
    looked_up: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_DEVICE_GROUPS", ("none", "nor-this"))
    assert Users().find("llmgw", "").groups == (44, 980, 5000)


@pytest.mark.parametrize(
    ("user", "group", "named"),
    [("nemo", "", "user nemo"), ("nemo", "nihil", "user nemo"), ("llmgw", "nihil", "group nihil")],
)
def test_who_is_not_known_is_named(looked_up: list[str], user: str, group: str, named: str) -> None:
    with pytest.raises(KeyError) as refused:
        Users().find(user, group)
    assert refused.value.args == (named,)


def test_a_burst_asks_once_and_a_later_one_again(
    looked_up: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(identity, "time", SimpleNamespace(monotonic=lambda: now))
    users = Users()
    for _ in range(3):
        users.find("llmgw", "")
    assert looked_up == ["llmgw"]
    users.find("llmgw", "models")
    assert looked_up == ["llmgw"] * 2
    now += 11.0
    users.find("llmgw", "")
    users.find("llmgw", "")
    assert looked_up == ["llmgw"] * 3


def test_a_user_that_was_not_known_is_asked_for_again(
    looked_up: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    users = Users()
    with pytest.raises(KeyError):
        users.find("late", "")
    monkeypatch.setitem(USERS, "late", USERS["llmgw"])
    assert users.find("late", "").uid == 990
