"""Who may look into another process, and what is said to those who may not."""

import os
from dataclasses import replace

import pytest

from dballoc.doctor.examine import judge_rights
from dballoc.doctor.finding import Finding
from dballoc.host.process import read_rights
from dballoc.host.process.handle import Process
from dballoc.host.process.read_rights import OwnRights

ORDINARY = OwnRights()
ROOT = OwnRights(capabilities=frozenset(range(41)))
DOCKER = "docker-default (enforce)"
CONTAINER = "system_u:system_r:container_t:s0:c57,c86"
MOUNTS = (
    "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
    "23 27 0:22 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"
)


def mount_proc(options: str) -> str:
    return f"{MOUNTS}99 22 0:50 / /proc rw,relatime shared:9 - proc proc rw{options}\n"


@pytest.mark.parametrize(
    ("label", "confined_as"),
    [
        ("", ""),
        ("unconfined\n", ""),
        ("unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023\0", ""),
        ("system_u:system_r:spc_t:s0", ""),
        (f"{DOCKER}\n", DOCKER),
        (f"{CONTAINER}\0", CONTAINER),
    ],
)
def test_what_a_label_confines(label: str, confined_as: str) -> None:
    assert read_rights.find_confinement(label) == confined_as


@pytest.mark.parametrize(
    ("rights", "is_own", "words"),
    [
        (ORDINARY, False, "only root, its own user and who has CAP_SYS_PTRACE"),
        (replace(ORDINARY, ptrace_scope=1), True, "as kernel.yama.ptrace_scope is 1"),
        (replace(ROOT, ptrace_scope=3), False, "nobody may look into it"),
        (replace(ROOT, in_user_namespace=True), False, "run this on the host"),
        (replace(ROOT, label=DOCKER), False, f", which confines dballoc as {DOCKER}, forbids it: run"),
        (replace(ORDINARY, label=CONTAINER), True, f"confines dballoc as {CONTAINER}"),
        (ROOT, False, "a security module (SELinux, AppArmor, Landlock) forbids it: run"),
        # Its capabilities explain it, whatever confines it.
        (replace(ORDINARY, label=DOCKER), False, "only root, its own user"),
    ],
)  # fmt: skip
def test_a_refusal_has_its_reason_and_what_to_do(
    rights: OwnRights, is_own: bool, words: str
) -> None:
    text = read_rights.explain_refusal(rights, is_own=is_own)
    assert words in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("options", "rights", "groups", "hiding"),
    [
        ("", ORDINARY, {1000}, ""),
        (",hidepid=off", ORDINARY, {1000}, ""),
        (",hidepid=0", ORDINARY, {1000}, ""),
        (",hidepid=1", ORDINARY, {1000}, "noaccess"),
        (",hidepid=2", ORDINARY, {1000}, "invisible"),
        (",hidepid=invisible", ORDINARY, {1000}, "invisible"),
        (",gid=27,hidepid=invisible", ORDINARY, {1000}, "invisible"),
        (",gid=27,hidepid=invisible", ORDINARY, {27, 1000}, ""),
        (",hidepid=invisible", ORDINARY, {0}, ""),
        (",hidepid=invisible", ROOT, {1000}, ""),
        (",hidepid=invisible", replace(ROOT, in_user_namespace=True), {1000}, "invisible"),
        (",gid=27,hidepid=ptraceable", ORDINARY, {27}, "ptraceable"),
        (",hidepid=4", ROOT, {0}, ""),
    ],
)
def test_whom_proc_hides_processes_from(
    options: str, rights: OwnRights, groups: set[int], hiding: str
) -> None:
    assert read_rights.find_hiding(mount_proc(options), rights, groups) == hiding


def test_the_last_mount_of_proc_is_the_one_that_is_seen() -> None:
    hidden = mount_proc(",hidepid=2")
    assert read_rights.find_hiding(hidden + mount_proc(""), ORDINARY, {1000}) == ""
    assert read_rights.find_hiding("", ORDINARY, {1000}) == ""


def test_a_process_that_is_not_there_may_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = "process 4194303: No such process"
    assert read_rights.describe_absence(4194303) == absent
    monkeypatch.setattr(read_rights, "read_hiding", lambda: "invisible")
    assert read_rights.describe_absence(4194303) == (
        f"{absent}, or one of another user, which /proc hides (hidepid=invisible); run this as "
        "root, as that user, or with CAP_SYS_PTRACE"
    )
    monkeypatch.setattr(read_rights, "read_hiding", lambda: "noaccess")
    assert read_rights.describe_absence(4194303) == absent


def test_a_security_modules_refusal_is_said_where_a_process_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(read_rights, "read_own_rights", lambda: replace(ROOT, label=DOCKER))
    text = read_rights.describe_read_error(Process.own(), PermissionError(13, "Permission denied"))
    assert text.startswith(f"process {os.getpid()}: Permission denied; a security module (")
    assert DOCKER in text


@pytest.mark.parametrize(
    ("rights", "hiding", "state", "words", "remedy"),
    [
        (ROOT, "", "ok", "may be looked into", ""),
        (ORDINARY, "", "note", "only this user's own may be looked into", "run as root, as the server's own user, or with CAP_SYS_PTRACE"),
        (replace(ORDINARY, ptrace_scope=1), "", "note", "none may be looked into: kernel.yama.ptrace_scope is 1", "run as root, or with"),
        (replace(ROOT, ptrace_scope=3), "", "warn", "until the next boot", ""),
        (ORDINARY, "invisible", "note", "/proc hides those of other users (hidepid=invisible)", "run as root"),
        (replace(ROOT, in_user_namespace=True), "", "note", "outside this user namespace", "run on the host"),
        (replace(ROOT, label=DOCKER), "", "note", f"unless {DOCKER}, which confines dballoc", "run dballoc unconfined"),
    ],
)  # fmt: skip
def test_doctor_says_what_may_be_looked_into(
    rights: OwnRights, hiding: str, state: str, words: str, remedy: str
) -> None:
    finding = judge_rights(rights, hiding)
    assert finding == Finding("other processes", state, finding.text, finding.remedy)  # type: ignore[arg-type]
    assert words in finding.text
    assert finding.remedy.startswith(remedy)
    assert bool(finding.remedy) is bool(remedy)


def test_the_rights_of_this_process_are_read() -> None:
    rights = read_rights.read_own_rights()
    assert rights.ptrace_scope == read_rights.read_ptrace_scope()
    assert read_rights.read_hiding() in ("", "noaccess", "invisible", "ptraceable")
    if os.geteuid() != 0:
        assert not rights.may_read_others
