-- Runs any sysbench script: DBALLOC_SCRIPT holds its module name or its path. Writes one JSON line per report interval and a
-- last one for the whole run to the file that DBALLOC_INTERVALS names; if that is a number, to the descriptor of that number.
-- The fields are those of sysbench's report hooks, with latencies in seconds. `clock` is CLOCK_MONOTONIC, the sampler's clock.
--
-- If DBALLOC_COUNTER is the number of a descriptor, each thread counts the transactions that it has ended there: a 64-bit integer
-- at the begin of its own 64 bytes.

local ffi = require("ffi")
ffi.cdef [[
  typedef struct { long tv_sec; long tv_nsec; } dballoc_timespec;
  int clock_gettime(int clock, dballoc_timespec *now);
  long write(int descriptor, const char *text, unsigned long size);
  int pthread_setcancelstate(int state, int *old);
  void *mmap(void *address, size_t length, int protection, int flags, int descriptor, long offset);
]]
local CLOCK_MONOTONIC = 1
local CANCEL_ENABLE, CANCEL_DISABLE = 0, 1

local intervals = os.getenv("DBALLOC_INTERVALS")
local script = os.getenv("DBALLOC_SCRIPT")
if script:find("/") then
  -- sysbench sets it to the path of the script that it runs: scripts of the 0.5 style load their other files by it.
  test = script
  dofile(script)
else
  require(script)
end

-- dballoc passes the number and size of the tables to every script. A script that declares options of its own, without these,
-- would refuse them.
if sysbench.cmdline.options then
  for _, name in ipairs { "tables", "table_size", "mysql_storage_engine" } do
    sysbench.cmdline.options[name] = sysbench.cmdline.options[name] or { "of dballoc's experiment", "" }
  end
end

local counter = tonumber(os.getenv("DBALLOC_COUNTER"))
if counter and event then
  local PROT_WRITE, MAP_SHARED, LINE = 2, 1, 64
  local perform, ended = event, nil

  local function map_counter()
    local length = sysbench.opt.threads * LINE
    local memory = ffi.C.mmap(nil, length, PROT_WRITE, MAP_SHARED, counter, 0)
    assert(ffi.cast("intptr_t", memory) ~= -1, "DBALLOC_COUNTER cannot be mapped")
    return ffi.cast("int64_t *", ffi.cast("char *", memory) + sysbench.tid % sysbench.opt.threads * LINE)
  end

  function event(...)
    local result = perform(...)
    ended = ended or map_counter()
    ended[0] = ended[0] + 1
    return result
  end
end

local function write(kind, stat)
  local now = ffi.new("dballoc_timespec")
  ffi.C.clock_gettime(CLOCK_MONOTONIC, now)
  local fields = {
    string.format('"kind": "%s"', kind),
    string.format('"clock": %.6f', tonumber(now.tv_sec) + tonumber(now.tv_nsec) / 1e9),
  }
  for name, value in pairs(stat) do
    fields[#fields + 1] = string.format('"%s": %.9g', name, value)
  end
  local line = "{" .. table.concat(fields, ", ") .. "}\n"
  if tonumber(intervals) then
    -- sysbench's user may not open the file; it inherited a descriptor that can only append.
    ffi.C.write(tonumber(intervals), line, #line)
    return
  end
  local out = assert(io.open(intervals, "a"))
  out:write(line)
  out:close()
end

-- When the time is over, sysbench cancels the thread that reports. If the thread is running this hook at that moment, LuaJIT
-- catches the cancellation as an error, and glibc ends the whole program (SIGABRT).
function sysbench.hooks.report_intermediate(stat)
  ffi.C.pthread_setcancelstate(CANCEL_DISABLE, nil)
  local fine, message = pcall(write, "interval", stat)
  ffi.C.pthread_setcancelstate(CANCEL_ENABLE, nil)
  if not fine then error(message, 0) end
end

function sysbench.hooks.report_cumulative(stat)
  write("total", stat)
end
