"""Tables of figures, one a line or a column a variant, for ``dballoc import``, as far as an experiment
and its trials.
"""

from dballoc.experiment import experiment_file
from dballoc.ground import readers
from dballoc.ground.errors import UsageError
from dballoc.intake import figure_tables, foreign_kinds
from dballoc.intake.assemble_campaign import assemble_campaign
from dballoc.intake.imported_figure import check_figures

OF = (
    "dballoc.intake.csv_figures",
    "dballoc.intake.figure_tables",
    "dballoc.intake.delimited_text",
    "dballoc.intake.assemble_campaign",
)
PRIVILEGED = False

_GOOD = b"""workload,threads,variant,tps,block,qps,p95_ms,rss_mib,seconds,machine
oltp_read_only,8,glibc,1234.5,1,19752,7.4,812.25,60,a
oltp_read_only,8,jemalloc,1301,1,20816,7.1,655,60,a
"oltp, read only",16,jemalloc,1301,2,20816,7.1,655,60,b
oltp_read_only,8,glibc,1244.5,2,19752,7.4,812.25,60,b
"""

_RATIOS = """Relative to: x.glibc

col-1 : x.tcmalloc
col-2 : x.jemalloc

col-1   col-2
0.99    1.02    hot-points_range=100
1.05    -       point-query_range=100
"""


def seeds() -> list[bytes]:
    return [
        _GOOD,
        b"\xef\xbb\xbf" + _GOOD.replace(b"\n", b"\r\n"),
        b"workload,threads,variant,tps\na,1,b,2\n",
        _RATIOS.encode(),
        _RATIOS.replace("col-1 ", "workload col-1 ").encode(),
        b"workload,threads,glibc,jemalloc,block\na,8,12345.5,13000,1\na,8,12345.5,-,2\n",
        "workload  glibc  j\xe9malloc\nhot-points  95454,25  96015,5\n".encode(),
        '#TYPE x\n"workload";"threads";"variant";"tps"\n"a";"1";"b";"2,5"\n'.encode("utf-16"),
    ]


def fuzz(data: bytes) -> None:
    try:
        text = foreign_kinds.decode_text(data)
    except readers.Unfit:
        return
    try:
        figures = figure_tables.parse_figures(text, "f.csv")
        check_figures(figures)
        experiment_file.format_experiment(
            assemble_campaign(figures, "out", None).experiment
        ).encode()
    except UsageError as error:
        assert "\n" not in str(error), error
