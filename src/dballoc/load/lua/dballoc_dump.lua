-- Dump churn: the first client runs mariadb-dump or mysqldump again and again; the others do what --statements says, beside it. Its
-- event is a whole dump, and theirs a transaction. The dump's command is in DBALLOC_DUMP; what it writes is thrown away.

local words = require("dballoc_words")
local ffi = require("ffi")
ffi.cdef [[ long time(long *now); ]]

local perform, ends

-- A dump must not outlive the run: timeout ends it with the run's time, and such a part of a dump does not count.
local function dump()
  local left = ends - tonumber(ffi.C.time(nil))
  if left < 1 then
    return true
  end
  local command = string.format("exec timeout --foreground -s KILL %d %s > /dev/null", left, os.getenv("DBALLOC_DUMP"))
  local status = os.execute(command)
  if status ~= 0 then
    if tonumber(ffi.C.time(nil)) >= ends then
      return true
    end
    error("the dump failed; what it printed stands before this")
  end
end

function thread_init()
  if sysbench.tid % sysbench.opt.threads == 0 then
    ends = tonumber(ffi.C.time(nil)) + sysbench.opt.time
    perform = dump
  else
    perform = words.client()
  end
end

function event()
  return perform()
end

function thread_done()
  if perform ~= dump then
    words.disconnect()
  end
end
