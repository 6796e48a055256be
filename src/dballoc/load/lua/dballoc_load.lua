-- The load phase, measured: creates sysbench's tables, fills them in bulk, then builds the index on k. An event is a row. Each
-- client fills its share of the tables, one after the other; clients beyond the number of tables, or beyond the option clients, have
-- nothing to do. The load ends when all rows are inserted.
--
-- sysbench's own bulk statements are 512 KB long, and a server needs some 10 MB to parse one. With small data and a small cache
-- that would be most of the server's memory, so a statement here has at most a 250th of the table's rows.

local C = "###########-###########-###########-###########-###########-###########-###########-###########-###########-###########"
local PAD = "###########-###########-###########-###########-###########"

sysbench.cmdline.options = {
  tables = { "Number of tables", 1 },
  table_size = { "Rows of a table", 10000 },
  mysql_storage_engine = { "Storage engine", "innodb" },
  clients = { "How many clients fill the tables; 0: all", 0 },
}

local STATEMENTS, FEWEST_ROWS = 250, 100

local connection, number, row, statement_rows, clients

local function begin_statement()
  connection:bulk_insert_init(string.format("INSERT INTO sbtest%u (k, c, pad) VALUES", number))
end

local function begin_table()
  connection:query(string.format(
    "CREATE TABLE sbtest%u (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '', "
      .. "pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id)) ENGINE = %s",
    number,
    sysbench.opt.mysql_storage_engine
  ))
  begin_statement()
  row = 0
end

local function end_table()
  connection:bulk_insert_done()
  connection:query(string.format("CREATE INDEX k_%u ON sbtest%u (k)", number, number))
end

function thread_init()
  clients = sysbench.opt.threads
  if sysbench.opt.clients > 0 then
    clients = math.min(clients, sysbench.opt.clients)
  end
  number = sysbench.tid % sysbench.opt.threads + 1
  statement_rows = math.max(FEWEST_ROWS, math.ceil(sysbench.opt.table_size / STATEMENTS))
  if number <= sysbench.opt.tables and number <= clients then
    connection = sysbench.sql.driver():connect()
    begin_table()
  end
end

-- An event that returns a value ends its client.
function event()
  if not connection then
    return true
  end
  if row == sysbench.opt.table_size then
    end_table()
    number = number + clients
    if number > sysbench.opt.tables then
      return true
    end
    begin_table()
  end
  if row > 0 and row % statement_rows == 0 then
    connection:bulk_insert_done()
    begin_statement()
  end
  row = row + 1
  local k = sysbench.rand.uniform(1, sysbench.opt.table_size)
  connection:bulk_insert_next(string.format("(%d, '%s', '%s')", k, sysbench.rand.string(C), sysbench.rand.string(PAD)))
end

function thread_done()
  if connection then
    connection:disconnect()
  end
end
