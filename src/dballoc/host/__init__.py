"""The machine that we run on: our processes' guardian, THP, cgroups, CPUs, the unprivileged user,
its description.
"""
