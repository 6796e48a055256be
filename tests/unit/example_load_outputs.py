"""What load generators print, for tests: the layouts are those that their readers name, the values
are invented.
"""

HAMMERDB = """HammerDB CLI v4.12
Vuser 1 created MONITOR - WAIT IDLE
{created}5 Virtual Users Created with Monitor VU
Vuser 1:RUNNING
Vuser 1:Beginning rampup time of 1 minutes
Vuser 1:Rampup 1 minutes complete ...
Vuser 1:Rampup complete, Taking start Transaction Count.
Vuser 1:Timing test period of 2 in minutes
Vuser 1:1  ...,
Vuser 1:2  ...,
Vuser 1:Test complete, Taking end Transaction Count.
Vuser 1:{clients} Active Virtual Users configured
Vuser 1:TEST RESULT : System achieved {nopm} NOPM from {tpm} MariaDB TPM
Vuser 1:FINISHED SUCCESS
ALL VIRTUAL USERS COMPLETE
"""


def hammerdb(clients: int = 4, tpm: int = 12000) -> str:
    return HAMMERDB.format(created="", clients=clients, nopm=tpm * 2 // 5, tpm=tpm)


def tpcc_mysql(clients: int = 16, made: int = 1000) -> str:
    raw = "".join(
        f"  [{kind}] sc:{made if kind < 2 else made // 10}  lt:{2 if kind == 0 else 0}  rt:0  fl:0 \n"
        for kind in range(5)
    )
    return f"""***************************************
*** ###easy### TPC-C Load Generator ***
***************************************
option h with value '127.0.0.1'
option c with value '{clients}'
<Parameters>
     [server]: 127.0.0.1
       [user]: root
       [pass]: secret
  [warehouse]: 20
 [connection]: {clients}
     [rampup]: 10 (sec.)
    [measure]: 100 (sec.)

RAMP-UP TIME.(10 sec.)

MEASURING START.

  10, trx: 120, 95%: 9.483, 99%: 18.738, max_rt: 213.169, 120|98.778, 12|101.096, 12|4.9, 12|6.8

STOPPING THREADS................

<Raw Results>
{raw} in 100 sec.

<Raw Results2(sum ver.)>
{raw.replace(f"sc:{made}", "sc:7")}
<Constraint Check> (all must be [OK])
 [transaction percentage]
        Payment: 43.44% (>=43.0%) [OK]

<TpmC>
                 {(made + 2) * 0.6:.3f} TpmC
"""


def benchmarksql(clients: int = 8, tpm: float = 6000.5) -> str:
    line = "14:40:50,115 [main] INFO   jTPCC : Term-00, "
    end = "14:45:50,115 [Thread-9] INFO   jTPCC : Term-00, "
    return "".join(
        [
            f"{line}     BenchmarkSQL v5.0\n",
            f"{line}db=mysql\n",
            f"{line}warehouses=10\n",
            f"{line}terminals={clients}\n",
            f"{line}runMins=5\n",
            f"{line}limitTxnsPerMin=300\n",
            "Term-00, Running Average tpmTOTAL: 302.72    Memory Usage: 44MB / 144MB          \r",
            f"{end}Measured tpmC (NewOrders) = {tpm * 0.45:.2f}\n",
            f"{end}Measured tpmTOTAL = {tpm}\n",
            f"{end}Session Start     = 2025-03-18 14:40:50\n",
            f"{end}Session End       = 2025-03-18 14:45:50\n",
            f"{end}Transaction Count = 30002\n",
        ]
    )


def mysqlslap(clients: int = 10, seconds: float = 8.0, engine: str = "") -> str:
    return (
        "mysqlslap: [Warning] Using a password on the command line interface can be insecure.\n"
        "Benchmark\n"
        + (f"\tRunning for engine {engine}\n" if engine else "")
        + f"\tAverage number of seconds to run all queries: {seconds:.3f} seconds\n"
        f"\tMinimum number of seconds to run all queries: {seconds - 0.25:.3f} seconds\n"
        f"\tMaximum number of seconds to run all queries: {seconds + 0.25:.3f} seconds\n"
        f"\tNumber of clients running queries: {clients}\n"
        "\tAverage number of queries per client: 1000\n\n"
    )
