-- A program beside the load: the first client runs it again and again (a dump, a physical backup), the others do what --statements
-- says. Its event is a whole run of the program, and theirs a transaction. The command is in DBALLOC_BESIDE; what it writes is thrown
-- away, and what it says goes to the file in DBALLOC_BESIDE_LOG.

local words = require("dballoc_words")
local ffi = require("ffi")
ffi.cdef [[ long time(long *now); ]]

local perform, ends

--- The line of the log that says most: the last with an error, else the last.
local function reason(path)
  local last, failure
  for line in io.lines(path) do
    if line:find("%S") then
      last = line
    end
    if line:lower():find("error") then
      failure = line
    end
  end
  return failure or last or "it said nothing"
end

-- The program must not outlive the run: timeout ends it with the run's time, and a part of what it does counts for nothing.
local function run()
  local left = ends - tonumber(ffi.C.time(nil))
  if left < 1 then
    return true
  end
  local log = os.getenv("DBALLOC_BESIDE_LOG")
  local command = string.format("exec timeout --foreground -s KILL %d %s > /dev/null 2> '%s'", left, os.getenv("DBALLOC_BESIDE"), log)
  local status = os.execute(command)
  if status ~= 0 then
    if tonumber(ffi.C.time(nil)) >= ends then
      return true
    end
    error(os.getenv("DBALLOC_BESIDE"):match("^%S+") .. " failed: " .. reason(log), 0)
  end
end

function thread_init()
  if sysbench.tid % sysbench.opt.threads == 0 then
    ends = tonumber(ffi.C.time(nil)) + sysbench.opt.time
    perform = run
  else
    perform = words.client()
  end
end

function event()
  return perform()
end

function thread_done()
  if perform ~= run then
    words.disconnect()
  end
end
