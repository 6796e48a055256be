-- Connection churn: connect, select one row by primary key, disconnect. The server allocates and frees all that it keeps for a
-- client.

sysbench.cmdline.options = {
  tables = { "Number of tables", 1 },
  table_size = { "Rows of a table", 10000 },
  mysql_storage_engine = { "Storage engine", "innodb" },
}

local driver

function thread_init()
  driver = sysbench.sql.driver()
end

function event()
  local connection = driver:connect()
  local number, id = sysbench.rand.uniform(1, sysbench.opt.tables), sysbench.rand.default(1, sysbench.opt.table_size)
  connection:query(string.format("SELECT c FROM sbtest%u WHERE id = %u", number, id))
  connection:disconnect()
end
