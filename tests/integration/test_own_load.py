"""Own workloads and own SQL data: sysbench Lua, SQL files, a dump; each mistake one line before the
first trial.
"""

import gzip
import json
import os
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from harness import Cli, Experiment, rows

from captured_run import run_captured

LUA = """
sysbench.cmdline.options = { span = {"how far", 10} }
function thread_init() con = sysbench.sql.driver():connect() end
function event()
  con:query("SELECT count(*) FROM mine WHERE id < " .. sysbench.opt.span)
end
"""
PREPARE = """
function prepare()
  local con = sysbench.sql.driver():connect()
  con:query("CREATE TABLE mine (id INT PRIMARY KEY)")
  con:query("INSERT INTO mine VALUES (1), (2), (30)")
end
"""
SQL = """-- an order
BEGIN;
SELECT c FROM sbtest1 WHERE id = {id=int:1:1000};
UPDATE sbtest1 SET k = k + 1, c = '{string:20}' WHERE id = {id};
SELECT id FROM sbtest1 ORDER BY id {choice:ASC|DESC} LIMIT {int:1:10};
COMMIT;
"""
# As many public scripts are: the data in a module beside them, and in the style of sysbench 0.5,
# where `test` is the script's path.
REQUIRING = 'require("mine_data")\n' + LUA
POINTS = """
dofile((string.match(test, "(.*/)") or "") .. "points_common.lua")
function event(thread_id) db_query("SELECT c FROM sbtest1 WHERE id = " .. pick()) end
"""
POINTS_COMMON = "function pick() return sb_rand(1, 1000) end\n"
GLIBC = [{"name": "glibc"}]


def outcomes(out: Path) -> list[tuple[str, str]]:
    return [
        (r["workload"], r["outcome"])
        for r in rows(
            out,
            "SELECT step.workload, outcome FROM step JOIN trial USING (trial) WHERE kind = 'level'",
        )
    ]


def test_lua_and_sql_side_by_side(run_cli: Cli, tiny_experiment: Experiment, out: Path) -> None:
    here = out.parent
    (here / "mine.lua").write_text(REQUIRING)
    (here / "mine_data.lua").write_text(PREPARE)
    (here / "points.lua").write_text(POINTS)
    (here / "points_common.lua").write_text(POINTS_COMMON)
    (here / "order.sql").write_text(SQL)
    file = tiny_experiment(variant=GLIBC, time={"idle": "0s"})
    shutil.copy(file, here / "x.toml")
    workloads = ",".join(f"{here}/{name}" for name in ("mine.lua", "points.lua", "order.sql"))
    done = run_cli("bench", here / "x.toml", "--workloads", workloads, "--out", out)
    assert done.status == 0, done.text
    assert sorted(outcomes(out)) == [
        (name, "ok") for name in ("mine", "order", "points") for _ in range(2)
    ]
    (queries,) = {
        r["queries"] / r["events"]
        for r in rows(out, "SELECT queries, events FROM step WHERE workload = 'order'")
    } or {0}
    assert queries == pytest.approx(5, rel=0.05)
    assert (out / "own/order.sql").read_text() == SQL
    # The same command resumes with the same files only.
    (here / "order.sql").write_text(SQL + "SELECT 1;\n")
    done = run_cli("bench", here / "x.toml", "--workloads", workloads, "--out", out)
    assert (done.status, done.stdout.count("\n")) == (2, 1), done.text
    assert (
        done.stderr
        == f"dballoc: {out}: workload order: {here.name}/order.sql changed since its trials ran; choose a new --out\n"
    )


MISTAKES: list[tuple[str, str, str]] = [
    (
        "x.sql",
        "BEGIN;\n\n\n\n\n\nSELECT {int:1};\n",
        "x.sql:7: {int:1}: int has two whole numbers, like {int:1:1000}",
    ),
    (
        "x.sql",
        "BEGIN;\n\n\n\n\nSELECT c\nFROM sbtest1 WHER id = 1;\n",
        "x.sql:7: You have an error in your SQL syntax; ",
    ),
    (
        "x.sql",
        "BEGIN;\n\n\n\n\n\nSELECT c FROM nosuch;\n",
        "x.sql:7: Table 'sbtest.nosuch' doesn't exist\n",
    ),
    (
        "x.sql",
        "\n\n\n\n\n\nINSERT INTO sbtest1 VALUES (1000001, 1, '', '');",
        "x.sql:7: Duplicate entry '1000001' for key 'PRIMARY', when it runs again\n",
    ),
    (
        "x.lua",
        "function event()\n\n\n\n\n\n  x = = 1\nend",
        "x.lua:7: unexpected symbol near '='\n",
    ),
    (
        "x.lua",
        "local c\nfunction thread_init() c = sysbench.sql.driver():connect() end\nfunction event()\n\n\n\n c:query('SELECT 1 FROM nosuch')\nend",
        "x.lua:7: SQL error, errno = 1146, state = '42S02': Table 'sbtest.nosuch' doesn't exist\n",
    ),
    (
        "x.lua",
        "function thread_init()\n local c = sysbench.sql.driver():connect()\n\n\n\n\n"
        " s = c:prepare('SELECT nothing FROM sbtest1')\nend\nfunction event() s:execute() end",
        "x.lua:7: SQL API error, errno = 1054: Unknown column 'nothing' in ",
    ),
]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    MISTAKES,
    ids=["syntax-ours", "syntax", "table", "twice", "lua", "lua-sql", "lua-thread-init"],
)
def test_an_error_in_line_seven(
    run_cli: Cli, tiny_experiment: Experiment, out: Path, name: str, text: str, message: str
) -> None:
    (out.parent / name).write_text(text)
    file = tiny_experiment(variant=GLIBC)
    done = run_cli("bench", file, "--workloads", out.parent / name, "--out", out)
    assert done.status == 2, done.text
    assert done.stderr.startswith(f"dballoc: {out.parent.name}/{message}"), done.stderr
    assert done.stderr.count("\n") == 1
    assert not (out / "results.sqlite").exists() or rows(out, "SELECT * FROM trial") == []


DUMP = """/*!40101 SET NAMES utf8mb4 */;
DROP TABLE IF EXISTS `item`;
CREATE TABLE `item` (`id` int PRIMARY KEY, `name` varchar(20)) ENGINE=InnoDB;
INSERT INTO `item` VALUES (1,'a;b'),(2,'it''s');
DELIMITER ;;
CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END ;;
DELIMITER ;
"""


def dump_experiment(tiny_experiment: Experiment, here: Path, data: dict[str, Any]) -> Path:
    (here / "item.sql").write_text("SELECT name FROM item WHERE id = {int:1:2};")
    written = tiny_experiment(
        variant=GLIBC,
        workloads=["./item.sql"],
        data={"database": "shop", **data},
        time={"idle": "0s"},
    )
    return Path(shutil.copy(written, here / "x.toml"))  # paths in a file are from where it lies


def test_a_dump(run_cli: Cli, tiny_experiment: Experiment, out: Path) -> None:
    if not (shutil.which("mariadb") or shutil.which("mysql")):
        pytest.skip("needs the client mariadb or mysql: apt-get install mariadb-client")
    (out.parent / "dump.sql.gz").write_bytes(gzip.compress(DUMP.encode()))
    (out.parent / "more.sql").write_text("INSERT INTO item VALUES (3, 'c');\n")
    file = dump_experiment(tiny_experiment, out.parent, {"sql": ["dump.sql.gz", "more.sql"]})
    done = run_cli("bench", file, "--out", out)
    assert done.status == 0, done.text
    assert outcomes(out) == [("item", "ok"), ("item", "ok")]
    assert set(json.loads((out / "own/identity.json").read_text())) == {"data", "workload item"}
    # A mistake in a script names its line; half an archive is one.
    (out.parent / "more.sql").write_text("\n\nINSERT INTO nosuch VALUES (3, 'c');\n")
    done = run_cli("bench", file, "--out", out.parent / "r2")
    assert (done.status, done.stderr) == (
        2,
        f"dballoc: {out.parent.name}/more.sql:3: Table 'shop.nosuch' doesn't exist\n",
    )
    whole = (out.parent / "dump.sql.gz").read_bytes()
    (out.parent / "dump.sql.gz").write_bytes(whole[: len(whole) - 12])
    done = run_cli("bench", file, "--out", out.parent / "r3")
    assert (done.status, done.stderr) == (
        2,
        f"dballoc: {out.parent.name}/dump.sql.gz: unexpected end of file\n",
    )


def test_a_report_at_the_very_end_does_not_end_sysbench(tmp_path: Path) -> None:
    """sysbench cancels its reporting thread when the time is over, which LuaJIT does not survive."""
    (tmp_path / "slow.lua").write_text("""
local ffi = require("ffi")
ffi.cdef("int usleep(unsigned int microseconds);")
local format = string.format
-- Reports take longer than there is time between them.
function string.format(...)
  for _ = 1, 1500 do
    local parts = {}
    for name in pairs({a = 1, b = 2, c = 3}) do parts[#parts + 1] = format("%s", name) end
    ffi.C.write(2, "", 0)
  end
  return format(...)
end
function event() ffi.C.usleep(1000) end
""")
    lua = files("dballoc.load") / "lua" / "dballoc.lua"
    words = ["sysbench", "--threads=2", "--time=2", "--report-interval=1", str(lua), "run"]
    with (tmp_path / "intervals").open("wb") as out:
        env = {
            **os.environ,
            "DBALLOC_SCRIPT": str(tmp_path / "slow.lua"),
            "DBALLOC_INTERVALS": str(out.fileno()),
        }
        for _ in range(2):
            done = run_captured(words, env=env, pass_fds=[out.fileno()])
            assert done.returncode == 0, done.stdout + done.stderr
    lines = (tmp_path / "intervals").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines].count("total") == 2
