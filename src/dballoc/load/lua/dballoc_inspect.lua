-- Loads the script whose path is in DBALLOC_SCRIPT, without a server, and prints one line: whether the script makes its own data.
-- It does if it has a prepare command that is not one of sysbench's own scripts, whose directory is in DBALLOC_SHARE.

local script = os.getenv("DBALLOC_SCRIPT")
-- sysbench sets it to the path of the script that it runs: scripts of the 0.5 style load their other files by it.
test = script
dofile(script)

local command = sysbench.cmdline.commands and sysbench.cmdline.commands.prepare
local prepare = command and command[1] or prepare
local own = false
if type(prepare) == "function" then
  local source = debug.getinfo(prepare, "S").source
  local share = "@" .. os.getenv("DBALLOC_SHARE") .. "/"
  own = source:sub(1, 1) == "@" and source:sub(1, #share) ~= share
end
print("dballoc: prepare " .. (own and "own" or "none"))
