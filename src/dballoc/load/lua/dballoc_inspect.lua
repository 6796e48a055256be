-- Loads the script whose path is in DBALLOC_SCRIPT, without a server, and says in one line whether it makes its own data:
-- has it a prepare command that is its own, and not one of sysbench's scripts that it builds on?

local script = os.getenv("DBALLOC_SCRIPT")
dofile(script)

local command = sysbench.cmdline.commands and sysbench.cmdline.commands.prepare
local prepare = command and command[1] or prepare
local own = type(prepare) == "function" and debug.getinfo(prepare, "S").source == "@" .. script
print("dballoc: prepare " .. (own and "own" or "none"))
