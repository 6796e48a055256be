-- Loads the script whose path is in DBALLOC_SCRIPT, without a server, and prints one line: whether the script makes its own data.
-- It does if it has a prepare command of its own, rather than that of a sysbench script that it builds on.

local script = os.getenv("DBALLOC_SCRIPT")
dofile(script)

local command = sysbench.cmdline.commands and sysbench.cmdline.commands.prepare
local prepare = command and command[1] or prepare
local own = type(prepare) == "function" and debug.getinfo(prepare, "S").source == "@" .. script
print("dballoc: prepare " .. (own and "own" or "none"))
