"""The machine that dballoc runs on: the guardian of its processes, THP, cgroups, CPUs, the
unprivileged users, the machine's description.
"""
