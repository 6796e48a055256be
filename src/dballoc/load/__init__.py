"""The load: sysbench, driven with our own report hook (lua/dballoc.lua)."""
