-- The server's part of a physical backup: the first client goes through the backup stages again and again, as a backup program
-- does, but copies nothing. Between two rounds it waits for --pause milliseconds. The other clients execute --statements.

local words = require("dballoc_words")
local ffi = require("ffi")
ffi.cdef [[ int usleep(unsigned int microseconds); ]]

sysbench.cmdline.options.pause = { "Milliseconds between two rounds of a backup's stages", 100 }

-- MariaDB from 10.4 on, and MySQL from 8.0 on.
local STAGES = {
  mariadb = { "BACKUP STAGE START", "BACKUP STAGE FLUSH", "BACKUP STAGE BLOCK_DDL", "BACKUP STAGE BLOCK_COMMIT", "BACKUP STAGE END" },
  mysql = { "LOCK INSTANCE FOR BACKUP", "FLUSH NO_WRITE_TO_BINLOG TABLES", "UNLOCK INSTANCE" },
}

local perform, connection, stages

local function back_up()
  for _, statement in ipairs(stages) do
    connection:query(statement)
  end
  ffi.C.usleep(sysbench.opt.pause * 1000)
end

function thread_init()
  if sysbench.tid % sysbench.opt.threads ~= 0 then
    perform = words.client()
    return
  end
  connection = sysbench.sql.driver():connect()
  stages = connection:query_row("SELECT VERSION()"):find("MariaDB") and STAGES.mariadb or STAGES.mysql
  perform = back_up
end

function event()
  return perform()
end

function thread_done()
  if perform == back_up then
    connection:disconnect()
  else
    words.disconnect()
  end
end
