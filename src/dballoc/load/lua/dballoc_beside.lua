-- A program beside the load: the first client runs a program again and again (a dump, a physical backup), and the others execute
-- --statements. An event of the first client is a whole run of the program; an event of the others is a transaction.
-- DBALLOC_BESIDE holds the command. Its output is thrown away; its error messages go to the file that DBALLOC_BESIDE_LOG names.

local words = require("dballoc_words")
local ffi = require("ffi")
ffi.cdef [[ long time(long *now); ]]

local perform, ends

--- Return the most telling line of the log: the last one with an error, else the last one.
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

-- The program must not outlive the run, so `timeout` kills it when the run's time is over. A run that was cut is not an event.
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
