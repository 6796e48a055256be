"""What strangers must not see, and what must stay."""

from dataclasses import replace

import pytest
from example_results import BARE_FACTS

from dballoc.questions.redact import Redaction
from dballoc.store.facts import DuetFacts, WorkloadFacts

REDACTION = Redaction(
    ["db7.acme.example"], ["jane", "CORP\\jroe"], ["/srv/Jane's builds/mysql 9/lib"]
)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("on db7.acme.example now", "on HOST now"),
        ("db7: started", "HOST: started"),
        ("DB7 and Jane", "HOST and USER"),
        ("mail from acme.example", "mail from DOMAIN"),
        ("kernel 6.1.0-db7-custom", "kernel 6.1.0-HOST-custom"),
        ("jroe ran it", "USER ran it"),
        ("db77 and janet are others", "db77 and janet are others"),
        ("/home/jane/src/lib/libjemalloc.so.2", "…/libjemalloc.so.2"),
        ("LD_PRELOAD=/opt/x/a.so:/opt/y/b.so", "LD_PRELOAD=…/a.so:…/b.so"),
        ("--basedir=/opt/acme/mysql-9.7", "--basedir=…/mysql-9.7"),
        ("/srv/Jane's builds/mysql 9/lib/libmy.so", "…/libmy.so"),
        ("in ~/work/x.cnf", "in …/x.cnf"),
        ("/usr/sbin/mariadbd: ready", "/usr/sbin/mariadbd: ready"),
        ("/lib/x86_64-linux-gnu/libjemalloc.so.2", "/lib/x86_64-linux-gnu/libjemalloc.so.2"),
        ("and/or 10/100", "and/or 10/100"),
        (
            "Linux version 6.18.1 (rob@buildbox.lan) (gcc 12)",
            "Linux version 6.18.1 (USER@HOST) (gcc 12)",
        ),
        ("report to dba@acme.example", "report to USER@DOMAIN"),
        ("jemalloc@5.3.0", "jemalloc@5.3.0"),
    ],
)
def test_text(text: str, redacted: str) -> None:
    assert REDACTION.redact_text(text) == redacted


def test_of_several_hosts_each_has_its_number() -> None:
    redaction = Redaction(["db1.acme.example", "db2.acme.example"], [])
    assert redaction.redact_text("db2: lost; db1 goes on") == "HOST 2: lost; HOST 1 goes on"


def test_all_names_of_a_host_are_the_same_host() -> None:
    """A node of Ray is ``NAME (ADDRESS)``; its domain goes too."""
    names = [
        (f"db{i}.acme.example (10.0.0.{i})", f"db{i}.acme.example", f"10.0.0.{i}") for i in (1, 2)
    ]
    redaction = Redaction(names, [])
    for text in names[1] + ("db2",):
        assert redaction.redact_text(f"{text} is lost") == "HOST 2 is lost"
    assert redaction.redact_text("10.0.0.12 of acme.example") == "10.0.0.12 of DOMAIN"


def test_names_that_say_nothing_stay() -> None:
    assert (
        Redaction(["localhost"], ["root", "mysql"]).redact_text("mysql as root on localhost")
        == "mysql as root on localhost"
    )


def test_values_of_json_change_and_its_keys_stay() -> None:
    assert REDACTION.redact_values({"jane": ["/home/jane/x", 5, None, {"host": "db7"}]}) == {
        "jane": ["…/x", 5, None, {"host": "HOST"}]
    }


def test_without_any_name_paths_go_all_the_same() -> None:
    assert Redaction([""], [""]).redact_text("at /data/secret/file") == "at …/file"


def test_values_of_secrets_go_everywhere() -> None:
    hidden = REDACTION.redact_values(
        {
            "server": {"options": {"s3_secret_key": "CANARY", "sort_buffer_size": "1M"}},
            "command": ["mariadbd", "--s3-secret-key=a CANARY", "--flush=1"],
            "log": "unknown variable 'loose-x-token=CANARY b'",
            "proxy": "http://jane:CANARY@proxy:3128/",
        }
    )
    assert "CANARY" not in str(hidden)
    assert hidden["server"]["options"] == {"s3_secret_key": "(hidden)", "sort_buffer_size": "1M"}
    assert hidden["command"] == ["mariadbd", "--s3-secret-key=(hidden)", "--flush=1"]


def test_facts_stay_facts() -> None:
    facts = replace(
        BARE_FACTS,
        workloads={
            "w": WorkloadFacts(options={"spider_remote_host": "CANARY", "at": "/home/jane/x"})
        },
        duet=DuetFacts(halves=("0", "/home/jane/x")),
    )
    redacted = REDACTION.redact_values(facts)
    assert redacted.workloads["w"].options == {"spider_remote_host": "(hidden)", "at": "…/x"}
    assert redacted.duet.halves == ("0", "…/x")
    assert redacted.designs == facts.designs
