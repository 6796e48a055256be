"""CPUs, memory limits and cgroups: those of the machine, and those that a process may use."""
