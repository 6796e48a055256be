"""Files to import, for tests: as Windows' tools write them."""

from pathlib import Path

from dballoc.intake.output_mapping import StackFile

MIB = 2**20

THREAD = "ntdll.dll!RtlUserThreadStart;KERNEL32.DLL!BaseThreadInitThunk;server.dll!do_command"
ALLOCATE = "server.dll!my_malloc;ucrtbase.dll!_malloc_base;ntdll.dll!RtlAllocateHeap"
ENTER = "ntdll.dll!RtlpAllocateHeap;ntdll.dll!RtlEnterCriticalSection"
SLEEP = "ntdll.dll!NtWaitForAlertByThreadId;ntoskrnl.exe!KiSwapContext"


def stack_file(**changed: object) -> StackFile:
    values = {
        "path": Path("nt.collapsed"),
        "variant": "nt-heap",
        "workload": "oltp_read_only",
        "threads": 512,
        "machine": None,
        "counts": "waits",
        "process": None,
    }
    return StackFile(**{**values, **changed})  # type: ignore[arg-type]


DUMP = """BeginHeader
CSwitch,     TimeStamp, New Process Name ( PID),    New TID, NPri
Stack,  TimeStamp,   ThreadID, No.,            Address,            Image!Function
EndHeader
                CSwitch,      36765,     mariadbd.exe (1234),       4848,  9
            ReadyThread,      36765,     mariadbd.exe (1234),       5000,  9
                  Stack,      36765,       4848,   1, 0x81c3617b,     ntoskrnl.exe!KiSwapContext
                  Stack,      36765,       4848,   2, 0x81ceec6f,     ntdll.dll!RtlAllocateHeap
                  Stack,      36765,       4848,   3, 0x81ceec70,     server.dll!List<A, B>::push
                  Stack,      36765,       5000,   1, 0x81ceec70,     ntdll.dll!RtlFreeHeap
                CSwitch,      40000,     mariadbd.exe (1234),       4848,  9
                  Stack,      40000,       4848,   1, 0x81c3617b,     ntoskrnl.exe!KiSwapContext
                  Stack,      40000,       4848,   2, 0x81ceec6f,     ntdll.dll!RtlAllocateHeap
                  Stack,      40000,       4848,   3, 0x81ceec70,     server.dll!List<A, B>::push
                CSwitch,      50000,     sysbench.exe (  77),         78,  9
                  Stack,      50000,         78,   1, 0x81ceec70,     sysbench.exe!main
                CSwitch,      60000,     mariadbd.exe (1234),       4848,  9
"""

TABLE = """New Process,New Thread Stack,Count,Waits (us)
mariadbd.exe (1234),[Root]/ntdll.dll!RtlUserThreadStart/server.dll!A::operator/(B)/ntdll.dll!X,"1,234","2,000.5"
mariadbd.exe (1234),n/a,7,1
Idle (0),[Root]/ntoskrnl.exe!KiIdleLoop,"20,726,984",9
"""

EXPORTED = """#TYPE Selected.System.Diagnostics.Process
"Name","Id","WorkingSet64","PrivateMemorySize64","VM"
"mariadbd","4711","104857600","209715200","2203595001856"
"mariadbd","4711","314572800","419430400","2203595001856"
"mariadbd","4711","209715200","314572800","2203595001856"
"""
PRINTED_5 = """
Handles  NPM(K)    PM(K)      WS(K)     CPU(s)     Id  SI ProcessName
-------  ------    -----      -----     ------     --  -- -----------
    520      38   204800     102400              4711   0 mariadbd


Handles  NPM(K)    PM(K)      WS(K)     CPU(s)     Id  SI ProcessName
-------  ------    -----      -----     ------     --  -- -----------
    520      38   409600     307200     812.34   4711   0 mariadbd
    520      38   307200     204800     812.34   4711   0 mariadbd
"""
PRINTED_7 = """
 NPM(K)    PM(M)      WS(M)     CPU(s)      Id  SI ProcessName
 ------    -----      -----     ------      --  -- -----------
     38   200,00     100,00     812,34    4711   0 mariadbd
     38   400,00     300,00     812,34    4711   0 mariadbd
     38   300,00     200,00     812,34    4711   0 mariadbd
"""
LOG = r"""

"(PDH-CSV 4.0) (W. Europe Standard Time)(-60)","\\HOST\Process(mariadbd)\Working Set","\\HOST\Process(mariadbd)\Private Bytes","\\HOST\Process(_Total)\% Processor Time"
"03/21/2025 10:11:12.131","104857600.000000","209715200"," "
"03/21/2025 10:11:13.131","314572800.000000","419430400","1"
"03/21/2025 10:11:14.131"," "," ","1"
"03/21/2025 10:11:15.131","209715200.000000","314572800","1"
Exiting, please wait...
The command completed successfully.
"""
COOKED = r"""#TYPE Microsoft.PowerShell.Commands.GetCounter.PerformanceCounterSample
"Path";"InstanceName";"CookedValue";"Timestamp"
"\\host\process v2(mariadbd:4711)\working set";"mariadbd:4711";"104857600";"21.03.2025"
"\\host\process v2(mariadbd:4711)\private bytes";"mariadbd:4711";"209715200";"21.03.2025"
"\\host\processor(_total)\% user time";"_total";"12,5";"21.03.2025"
"\\host\process v2(mariadbd:4711)\working set";"mariadbd:4711";"314572800";"21.03.2025"
"\\host\process v2(mariadbd:4711)\private bytes";"mariadbd:4711";"419430400";"21.03.2025"
"\\host\process v2(mariadbd:4711)\working set";"mariadbd:4711";"209715200";"21.03.2025"
"\\host\process v2(mariadbd:4711)\private bytes";"mariadbd:4711";"314572800";"21.03.2025"
"""
SHOWN = """
Timestamp                 CounterSamples
---------                 --------------
""" + "".join(
    rf"""3/21/2025 10:11:12 AM     \\host\process(mariadbd)\working set :
                          {rss * MIB}

                          \\host\process(mariadbd)\private bytes :
                          {private * MIB}

"""
    for rss, private in ((100, 200), (300, 400), (200, 300))
)
OWN = "rss_mib,private_gib\n100,0.1953125\n300,0.390625\n200,0.29296875\n"
LAYOUTS = {
    "Export-Csv": EXPORTED,
    "Get-Process in PowerShell 5": PRINTED_5,
    "Get-Process in PowerShell 7": PRINTED_7,
    "typeperf": LOG,
    "Get-Counter to Export-Csv": COOKED,
    "Get-Counter": SHOWN,
    "our own columns": OWN,
}

MAPPING = """workload = "oltp_read_only"
threads = 512

[[stacks]]
files = "{variant}.collapsed"

[[stacks]]
files = "{variant}-ready.txt"
counts = "wakeups"

[[stacks]]
files = "{variant}-cpu.txt"
counts = "cpu"

[[memory]]
files = "{variant}-{threads}.csv"
"""
