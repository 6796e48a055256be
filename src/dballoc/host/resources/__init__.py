"""CPUs, memory limits and cgroups: which there are, which a process may use."""
