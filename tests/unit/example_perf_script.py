"""What perf script prints."""

TEXT = """\
16440/16443 36498.245564687: PERF_RECORD_SWITCH IN         
16440/16443 36498.245574139: sched:sched_waking: comm=my con pid=16445 prio=139 target_cpu=001
\tffffffff813a88b4 ([kernel.kallsyms])
\t           86193 (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t          1098eb (/usr/lib/x86_64-linux-gnu/libc.so.6)

        16440/16443 36498.245627459: sched:sched_wakeup: comm=c pid=16445 prio=139 target_cpu=001 ffffffff813a82d5 ttwu_do_activate ([kernel.kallsyms])
16440/16443 36498.245635221:   context-switches: 
\tffffffff821f8c03 ([kernel.kallsyms])
\t          7a11f0 (/opt/my (x)/bin/mariadbd (deleted))
\t            11d4 (/usr/lib/libstdc++.so.6.0.30)

16440/16443 36498.245700000: PERF_RECORD_SWITCH OUT preempt
16440/16443 36498.245700001: PERF_RECORD_LOST lost 123
"""
