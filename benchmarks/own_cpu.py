"""The CPU time of dballoc itself beside the load, and how it grows with the server's threads.

    python benchmarks/own_cpu.py [--threads 1,16,256] [--seconds 8] [--keep DIR]

Runs a campaign of one block for each number of threads, in all designs, of two variants with the
same malloc, and prints what results.sqlite has of it (table ``host_step``): the CPU time of all of
dballoc's processes, the main one, its guardian and what it waited for, of all CPUs, of one CPU, and
of one CPU by thread of a server that has a client. Point selects on tables in memory: each thread
is runnable whenever its client is not. With more threads than CPUs they are runnable, and few of
them run: what dballoc does for a thread costs the same, but a machine with a CPU for each thread
would have more switches and other caches.

The exit status is 1 if, beside 16 threads, any design takes more than 0.3 % of one CPU a thread.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

from dballoc.document.terminal import print_document  # noqa: F401
from dballoc.questions.campaign.figures.trial_tables import compute_own_cpu
from dballoc.questions.compare.campaign_tables import load_campaign
