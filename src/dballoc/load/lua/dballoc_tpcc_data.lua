-- The tables of the TPC-C-like mix and their initial rows: clauses 1.3 and 4.3.3 of the specification, without foreign keys.

local draw = require("dballoc_tpcc_random")

local data = {}

-- Each customer's initial payment.
local DISTRICTS, PAID = 10, 10
-- The last 30 % of a district's initial orders (900 of 3000) are not delivered yet.
local DELIVERED = 0.7

local TABLES = {
  [[item (i_id INT NOT NULL, i_im_id INT NOT NULL, i_name VARCHAR(24) NOT NULL, i_price DECIMAL(5,2) NOT NULL,
    i_data VARCHAR(50) NOT NULL, PRIMARY KEY (i_id))]],
  [[warehouse (w_id INT NOT NULL, w_name VARCHAR(10) NOT NULL, w_street_1 VARCHAR(20) NOT NULL, w_street_2 VARCHAR(20) NOT NULL,
    w_city VARCHAR(20) NOT NULL, w_state CHAR(2) NOT NULL, w_zip CHAR(9) NOT NULL, w_tax DECIMAL(4,4) NOT NULL,
    w_ytd DECIMAL(14,2) NOT NULL, PRIMARY KEY (w_id))]],
  [[district (d_id INT NOT NULL, d_w_id INT NOT NULL, d_name VARCHAR(10) NOT NULL, d_street_1 VARCHAR(20) NOT NULL,
    d_street_2 VARCHAR(20) NOT NULL, d_city VARCHAR(20) NOT NULL, d_state CHAR(2) NOT NULL, d_zip CHAR(9) NOT NULL,
    d_tax DECIMAL(4,4) NOT NULL, d_ytd DECIMAL(14,2) NOT NULL, d_next_o_id INT NOT NULL, PRIMARY KEY (d_w_id, d_id))]],
  [[customer (c_id INT NOT NULL, c_d_id INT NOT NULL, c_w_id INT NOT NULL, c_first VARCHAR(16) NOT NULL, c_middle CHAR(2) NOT NULL,
    c_last VARCHAR(16) NOT NULL, c_street_1 VARCHAR(20) NOT NULL, c_street_2 VARCHAR(20) NOT NULL, c_city VARCHAR(20) NOT NULL,
    c_state CHAR(2) NOT NULL, c_zip CHAR(9) NOT NULL, c_phone CHAR(16) NOT NULL, c_since DATETIME NOT NULL, c_credit CHAR(2) NOT NULL,
    c_credit_lim DECIMAL(12,2) NOT NULL, c_discount DECIMAL(4,4) NOT NULL, c_balance DECIMAL(14,2) NOT NULL,
    c_ytd_payment DECIMAL(14,2) NOT NULL, c_payment_cnt INT NOT NULL, c_delivery_cnt INT NOT NULL, c_data VARCHAR(500) NOT NULL,
    PRIMARY KEY (c_w_id, c_d_id, c_id), KEY by_name (c_w_id, c_d_id, c_last, c_first))]],
  [[history (h_id BIGINT NOT NULL AUTO_INCREMENT, h_c_id INT NOT NULL, h_c_d_id INT NOT NULL, h_c_w_id INT NOT NULL,
    h_d_id INT NOT NULL, h_w_id INT NOT NULL, h_date DATETIME NOT NULL, h_amount DECIMAL(6,2) NOT NULL, h_data VARCHAR(24) NOT NULL,
    PRIMARY KEY (h_id))]],
  [[orders (o_id INT NOT NULL, o_d_id INT NOT NULL, o_w_id INT NOT NULL, o_c_id INT NOT NULL, o_entry_d DATETIME NOT NULL,
    o_carrier_id INT, o_ol_cnt INT NOT NULL, o_all_local INT NOT NULL, PRIMARY KEY (o_w_id, o_d_id, o_id),
    KEY by_customer (o_w_id, o_d_id, o_c_id, o_id))]],
  [[new_orders (no_o_id INT NOT NULL, no_d_id INT NOT NULL, no_w_id INT NOT NULL, PRIMARY KEY (no_w_id, no_d_id, no_o_id))]],
  [[order_line (ol_o_id INT NOT NULL, ol_d_id INT NOT NULL, ol_w_id INT NOT NULL, ol_number INT NOT NULL, ol_i_id INT NOT NULL,
    ol_supply_w_id INT NOT NULL, ol_delivery_d DATETIME, ol_quantity INT NOT NULL, ol_amount DECIMAL(6,2) NOT NULL,
    ol_dist_info CHAR(24) NOT NULL, PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))]],
  [[stock (s_i_id INT NOT NULL, s_w_id INT NOT NULL, s_quantity INT NOT NULL, s_dist_01 CHAR(24) NOT NULL, s_dist_02 CHAR(24) NOT NULL,
    s_dist_03 CHAR(24) NOT NULL, s_dist_04 CHAR(24) NOT NULL, s_dist_05 CHAR(24) NOT NULL, s_dist_06 CHAR(24) NOT NULL,
    s_dist_07 CHAR(24) NOT NULL, s_dist_08 CHAR(24) NOT NULL, s_dist_09 CHAR(24) NOT NULL, s_dist_10 CHAR(24) NOT NULL,
    s_ytd INT NOT NULL, s_order_cnt INT NOT NULL, s_remote_cnt INT NOT NULL, s_data VARCHAR(50) NOT NULL, PRIMARY KEY (s_w_id, s_i_id))]],
}

local connection

--- Insert `count` rows. `make(i)` returns the text of row i's values, or nil to leave the row out.
local function fill(target, count, make)
  connection:bulk_insert_init("INSERT INTO " .. target .. " VALUES")
  for i = 1, count do
    local values = make(i)
    if values then
      connection:bulk_insert_next(values)
    end
  end
  connection:bulk_insert_done()
end

local function address()
  local street_1, street_2, city = draw.letters(10, 20), draw.letters(10, 20), draw.letters(10, 20)
  return string.format("'%s', '%s', '%s', '%s', '%s11111'", street_1, street_2, city, draw.letters(2), draw.digits(4))
end

local function tax()
  return sysbench.rand.uniform(0, 2000) / 10000
end

local function items(first, step)
  local count = math.floor((sysbench.opt.items - first) / step) + 1
  fill("item", count, function(i)
    local id, price = first + (i - 1) * step, sysbench.rand.uniform(100, 10000) / 100
    return string.format(
      "(%d, %d, '%s', %.2f, '%s')", id, sysbench.rand.uniform(1, 10000), draw.letters(14, 24), price, draw.original(26, 50)
    )
  end)
end

local function stock(w)
  fill("stock", sysbench.opt.items, function(i)
    local information = {}
    for d = 1, DISTRICTS do
      information[d] = "'" .. draw.letters(24) .. "'"
    end
    return string.format(
      "(%d, %d, %d, %s, 0, 0, 0, '%s')",
      i, w, sysbench.rand.uniform(10, 100), table.concat(information, ", "), draw.original(26, 50)
    )
  end)
end

local function customers(w, d)
  fill("customer", sysbench.opt.customers, function(c)
    -- The first thousand customers have every last name once, so every name that is looked up exists.
    local name = c <= 1000 and c - 1 or draw.name_number(1000)
    return string.format(
      "(%d, %d, %d, '%s', 'OE', '%s', %s, '%s', NOW(), '%s', 50000.00, %.4f, -10.00, 10.00, 1, 0, '%s')",
      c, d, w, draw.letters(8, 16), draw.last_name(name), address(), draw.digits(16),
      sysbench.rand.uniform(1, 10) == 1 and "BC" or "GC", sysbench.rand.uniform(0, 5000) / 10000, draw.letters(300, 500)
    )
  end)
  fill("history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)", sysbench.opt.customers, function(c)
    return string.format("(%d, %d, %d, %d, %d, NOW(), %.2f, '%s')", c, d, w, d, w, PAID, draw.letters(12, 24))
  end)
end

local function orders(w, d)
  local delivered, lines = math.floor(sysbench.opt.customers * DELIVERED), {}
  local who = draw.shuffled(sysbench.opt.customers)
  fill("orders", sysbench.opt.customers, function(o)
    lines[o] = sysbench.rand.uniform(5, 15)
    local carrier = o <= delivered and tostring(sysbench.rand.uniform(1, 10)) or "NULL"
    return string.format("(%d, %d, %d, %d, NOW(), %s, %d, 1)", o, d, w, who[o], carrier, lines[o])
  end)
  fill("new_orders", sysbench.opt.customers, function(o)
    return o > delivered and string.format("(%d, %d, %d)", o, d, w)
  end)
  local order, number = 1, 0
  local total = 0
  for _, count in ipairs(lines) do
    total = total + count
  end
  fill("order_line", total, function()
    number = number + 1
    if number > lines[order] then
      order, number = order + 1, 1
    end
    local done = order <= delivered
    return string.format(
      "(%d, %d, %d, %d, %d, %d, %s, 5, %.2f, '%s')",
      order, d, w, number, sysbench.rand.uniform(1, sysbench.opt.items), w, done and "NOW()" or "NULL",
      done and 0 or sysbench.rand.uniform(1, 999999) / 100, draw.letters(24)
    )
  end)
end

local function warehouse(w)
  local customers_each = sysbench.opt.customers
  fill("warehouse", 1, function()
    return string.format(
      "(%d, '%s', %s, %.4f, %.2f)", w, draw.letters(6, 10), address(), tax(), DISTRICTS * customers_each * PAID
    )
  end)
  fill("district", DISTRICTS, function(d)
    return string.format(
      "(%d, %d, '%s', %s, %.4f, %.2f, %d)", d, w, draw.letters(6, 10), address(), tax(), customers_each * PAID, customers_each + 1
    )
  end)
  stock(w)
  for d = 1, DISTRICTS do
    customers(w, d)
    orders(w, d)
  end
end

--- sysbench's prepare command, run by all its threads at once.
function data.prepare()
  if sysbench.opt.customers < 3 or sysbench.opt.items < 1 or sysbench.opt.warehouses < 1 then
    error("warehouses and items: 1 at least, customers: 3 at least")
  end
  connection = sysbench.sql.driver():connect()
  local first, step = sysbench.tid % sysbench.opt.threads + 1, sysbench.opt.threads
  for _, text in ipairs(TABLES) do
    -- Every thread issues CREATE … IF NOT EXISTS, so none has to wait for another.
    connection:query("CREATE TABLE IF NOT EXISTS " .. text .. " ENGINE = " .. sysbench.opt.mysql_storage_engine)
  end
  if first <= sysbench.opt.items then
    items(first, step)
  end
  for w = first, sysbench.opt.warehouses, step do
    warehouse(w)
  end
end

return data
