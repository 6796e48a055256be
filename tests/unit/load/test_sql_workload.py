"""The language of SQL workloads: what is a statement, what a parameter, and in which line something
is wrong.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dballoc.load import sql_workload
from dballoc.load.sql_workload import Choice, Int, Parameter, SqlError, SqlStatement, String


def texts(source: str, round_: int = 0) -> list[str]:
    return sql_workload.example(sql_workload.parse(source), round_)


def test_statements_comments_and_texts() -> None:
    source = """-- one; 'two
BEGIN;   # three; "four
SELECT '-- no; # comment', "it''s; \\" here", `a;b` /* nor ; 'this */ FROM t
;
SELECT 1 -- the last one may lack its end"""
    assert texts(source) == [
        "BEGIN",
        "SELECT '-- no; # comment', \"it''s; \\\" here\", `a;b`   FROM t",
        "SELECT 1",
    ]
    assert [s.line for s in sql_workload.parse(source)] == [2, 3, 5]


def test_what_looks_like_a_comment_and_is_none() -> None:
    assert texts("SELECT 5--3, /*! STRAIGHT_JOIN */ /*+ NO_ICP(t) */ 1") == [
        "SELECT 5--3, /*! STRAIGHT_JOIN */ /*+ NO_ICP(t) */ 1"
    ]


def test_parameters() -> None:
    statement = sql_workload.parse(
        "UPDATE t SET a = '{string:3}', b = {n=int:-5:7} WHERE b = {n} ORDER BY {choice:a|b DESC|}"
    )[0]
    assert statement.pieces == (
        "UPDATE t SET a = '",
        Parameter(None, String(3)),
        "', b = ",
        Parameter("n", Int(-5, 7)),
        " WHERE b = ",
        Parameter("n", None),
        " ORDER BY ",
        Parameter(None, Choice(("a", "b DESC", ""))),
    )


def test_a_name_lasts_for_the_whole_event() -> None:
    assert texts("SELECT {id=int:3:9}; DELETE FROM t WHERE id = {id}", 1) == [
        "SELECT 9",
        "DELETE FROM t WHERE id = 9",
    ]


def test_braces_that_are_none_of_ours() -> None:
    assert texts("""SELECT '{"a": {"b": 1}}', '{}', '{ x }', "{{id}", {d '2020-01-01'}""") == [
        """SELECT '{"a": {"b": 1}}', '{}', '{ x }', "{id}", {d '2020-01-01'}"""
    ]


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("SELECT 1;\n\n\n\n\n\nSELECT {int:1};", 7, "{int:1}: int has two whole numbers, like {int:1:1000}"),
        ("{int:9:1}", 1, "{int:9:1}: 9 is more than 1"),
        ("{int:0:4294967296}", 1, "{int:0:4294967296}: at most 4294967294 numbers, none beyond 9007199254740992"),
        ("\n{int}", 2, "{int}: int needs its bounds; a parameter is"),
        ("{string:0}", 1, "{string:0}: string needs a length from 1 to 65535"),
        ("{choice:a}", 1, "{choice:a}: choice has texts to choose from"),
        ("{number:1}", 1, "{number:1}: no parameter 'number'; a parameter is"),
        ("{id}; {id=int:1:2}", 1, "{id}: nothing is called 'id' so far"),
        ("{id=int:1:2};\n{id=int:1:2}", 2, "{id=int:1:2}: 'id' is drawn already"),
        ("{int=int:1:2}", 1, "{int=int:1:2}: 'int' is a kind of parameter, not a name"),
        ("SELECT {int:1\n:2}", 1, "'{int:1': no } in this line"),
        ("SELECT 1;\nSELECT 'a\nb;\n", 2, "a text begins here with ' and does not end"),
        ("\n/* a\nb", 2, "a comment begins here and does not end"),
        ("SELECT 1;\nDELIMITER //", 2, "DELIMITER is a command of the client"),
        (" ; -- nothing\n;", 1, "there is no statement in it"),
    ],
)  # fmt: skip
def test_what_is_wrong_and_where(source: str, line: int, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        sql_workload.parse(source)
    assert caught.value.line == line
    assert str(caught.value).startswith(message)


PLAIN = st.text(
    st.characters(
        blacklist_characters="{}'\"`;#-/*\\\n\r\ufeff", blacklist_categories=("Cs", "Z", "Cc")
    ),
    min_size=1,
)
LITERAL = st.text(st.characters(blacklist_characters="\r\ufeff", blacklist_categories=("Cs",)))


@given(st.lists(PLAIN, min_size=1), st.integers(0, 5))
def test_plain_statements_come_out_as_they_went_in(statements: list[str], blank: int) -> None:
    statements = [f"S{s}" for s in statements]  # none is the client's DELIMITER
    parsed = sql_workload.parse("\n" * blank + ";\n".join(statements))
    assert [s.pieces for s in parsed] == [(s,) for s in statements]
    assert [s.line for s in parsed] == [blank + 1 + i for i in range(len(statements))]


@given(LITERAL)
def test_any_text_can_be_written_in_quotes(text: str) -> None:
    quoted = "SELECT '" + text.replace("\\", "\\\\").replace("'", "''").replace("{", "{{") + "'"
    (statement,) = sql_workload.parse(quoted + "; SELECT 2")[:-1]
    assert "".join(map(str, statement.pieces)) == quoted.replace("{{", "{")


@given(st.text())
def test_nothing_makes_it_fall_over(text: str) -> None:
    wrong: SqlError | None = None
    try:
        parsed = sql_workload.parse(text)
    except SqlError as error:
        wrong = error
    if wrong:
        assert 1 <= wrong.line <= text.count("\n") + 1
        return
    for round_ in range(3):
        assert len(sql_workload.example(parsed, round_)) == len(parsed)


@given(st.integers(-(2**53), 2**53), st.integers(0, 2**32 - 2))
def test_numbers_stay_within_their_bounds(low: int, width: int) -> None:
    high = min(low + width, 2**53)
    statements = sql_workload.parse(f"SELECT {{int:{low}:{high}}}")
    assert [sql_workload.example(statements, r) for r in (0, 1)] == [
        [f"SELECT {low}"],
        [f"SELECT {high}"],
    ]


def test_every_choice_is_shown() -> None:
    statements = sql_workload.parse("SELECT {choice:a|b|c}, {choice:x|y}")
    shown = {sql_workload.example(statements, r)[0] for r in range(sql_workload.rounds(statements))}
    assert {s[7] for s in shown} == set("abc")
    assert sql_workload.rounds(sql_workload.parse("SELECT 1")) == 2  # what works once only


@given(LITERAL)
def test_compiled_texts_are_plain_and_lose_nothing(text: str) -> None:
    made = sql_workload.compile_lua((SqlStatement(1, (text or "x",)),))
    assert made.isascii()
    inner = re.fullmatch(r'return \{\n  \{"(.*)"\},\n\}\n', made)
    assert inner
    back = re.sub(rb"\\(\d{3})", lambda m: bytes([int(m[1])]), inner[1].encode())
    assert back.decode() == (text or "x")


def test_reading_and_writing() -> None:
    assert [
        s.reads
        for s in sql_workload.parse("SELECT 1; (SELECT 2); BEGIN; UPDATE t SET a=1; {choice:a|b}")
    ] == [
        True,
        True,
        True,
        False,
        False,
    ]
