-- A TPC-C-like transaction mix: nine tables, five transactions (new-order 45 %, payment 43 %, order-status, delivery and stock-level
-- 4 % each), scaled by warehouses. Tables and transaction profiles follow the TPC-C specification, revision 5.11, but this is not
-- TPC-C: there are no keying and thinking times, no terminals and no foreign keys, and results are not displayed. An event is a
-- transaction.
--
-- `prepare` makes the data, each client its share of items and warehouses. For small data choose fewer customers per district than
-- the specification's 3000, or fewer items than its 100000; stock follows items, and the first orders follow customers.

local data = require("dballoc_tpcc_data")
local draw = require("dballoc_tpcc_random")

sysbench.cmdline.options = {
  warehouses = { "Number of warehouses", 1 },
  items = { "Number of items, and of stock rows in a warehouse", 100000 },
  customers = { "Customers of a district, and its first orders; 3 at least", 3000 },
  mysql_storage_engine = { "Storage engine", "innodb" },
}
sysbench.cmdline.commands = { prepare = { data.prepare, sysbench.cmdline.PARALLEL_COMMAND } }

local DISTRICTS = 10
local connection

local function run(text, ...)
  return connection:query(string.format(text, ...))
end

local function row(text, ...)
  return connection:query_row(string.format(text, ...))
end

local function rows(text, ...)
  local found, result = {}, run(text, ...)
  for i = 1, tonumber(result.nrows) do
    found[i] = result:fetch_row()
  end
  return found
end

local function warehouse()
  return sysbench.rand.uniform(1, sysbench.opt.warehouses)
end

--- Return another warehouse than `home`, or `home` if it is the only one.
local function remote(home)
  local other = sysbench.rand.uniform(1, math.max(1, sysbench.opt.warehouses - 1))
  return (sysbench.opt.warehouses > 1 and other >= home) and other + 1 or other
end

--- Choose a customer: in 60 % of the cases by last name, and then the middle one by first name; else by number.
local function customer(w, d, columns)
  if sysbench.rand.uniform(1, 100) > 60 then
    local id = draw.customer(sysbench.opt.customers)
    local found = rows("SELECT %s FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", columns, w, d, id)
    return id, found[1]
  end
  local same = rows(
    "SELECT c_id, %s FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_last = '%s' ORDER BY c_first",
    columns, w, d, draw.last_name(draw.name_number(sysbench.opt.customers))
  )
  local chosen = same[math.ceil(#same / 2)]
  return tonumber(table.remove(chosen, 1)), chosen
end

local function new_order()
  local w, d = warehouse(), sysbench.rand.uniform(1, DISTRICTS)
  local c, count = draw.customer(sysbench.opt.customers), sysbench.rand.uniform(5, 15)
  local fails = sysbench.rand.uniform(1, 100) == 1
  local lines, all_local = {}, 1
  for i = 1, count do
    local supplier = w
    if sysbench.opt.warehouses > 1 and sysbench.rand.uniform(1, 100) == 1 then
      supplier, all_local = remote(w), 0
    end
    lines[i] = { item = draw.item(sysbench.opt.items), supplier = supplier, quantity = sysbench.rand.uniform(1, 10) }
  end
  -- All clients lock the rows of stock in the same order; otherwise they would deadlock.
  table.sort(lines, function(a, b)
    return a.supplier < b.supplier or (a.supplier == b.supplier and a.item < b.item)
  end)
  if fails then
    lines[count].item = sysbench.opt.items + 1
  end

  run("BEGIN")
  run(
    "SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse WHERE w_id = %d AND c_w_id = w_id AND c_d_id = %d AND c_id = %d",
    w, d, c
  )
  local order = tonumber((row("SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = %d AND d_id = %d FOR UPDATE", w, d)))
  run("UPDATE district SET d_next_o_id = %d WHERE d_w_id = %d AND d_id = %d", order + 1, w, d)
  run(
    "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES (%d, %d, %d, %d, NOW(), %d, %d)",
    order, d, w, c, count, all_local
  )
  run("INSERT INTO new_orders (no_o_id, no_d_id, no_w_id) VALUES (%d, %d, %d)", order, d, w)
  for number, line in ipairs(lines) do
    local price = row("SELECT i_price, i_name, i_data FROM item WHERE i_id = %d", line.item)
    if not price then -- an unused item number: the transaction is rolled back
      run("ROLLBACK")
      return
    end
    local quantity, information = row(
      "SELECT s_quantity, s_dist_%02d, s_data FROM stock WHERE s_i_id = %d AND s_w_id = %d FOR UPDATE",
      d, line.item, line.supplier
    )
    local left = tonumber(quantity) - line.quantity
    run(
      "UPDATE stock SET s_quantity = %d, s_ytd = s_ytd + %d, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + %d "
        .. "WHERE s_i_id = %d AND s_w_id = %d",
      left >= 10 and left or left + 91, line.quantity, line.supplier == w and 0 or 1, line.item, line.supplier
    )
    run(
      "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info) "
        .. "VALUES (%d, %d, %d, %d, %d, %d, %d, %.2f, '%s')",
      order, d, w, number, line.item, line.supplier, line.quantity, line.quantity * tonumber(price), information
    )
  end
  run("COMMIT")
end

local function payment()
  local w, d, amount = warehouse(), sysbench.rand.uniform(1, DISTRICTS), sysbench.rand.uniform(100, 500000) / 100
  local cw, cd = w, d
  if sysbench.opt.warehouses > 1 and sysbench.rand.uniform(1, 100) > 85 then
    cw, cd = remote(w), sysbench.rand.uniform(1, DISTRICTS)
  end
  run("BEGIN")
  run("UPDATE warehouse SET w_ytd = w_ytd + %.2f WHERE w_id = %d", amount, w)
  local w_name = row("SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = %d", w)
  run("UPDATE district SET d_ytd = d_ytd + %.2f WHERE d_w_id = %d AND d_id = %d", amount, w, d)
  local d_name =
    row("SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district WHERE d_w_id = %d AND d_id = %d", w, d)
  local c, found = customer(cw, cd, "c_first, c_middle, c_last, c_credit, c_credit_lim, c_discount, c_balance, c_since")
  local more = ""
  if found[4] == "BC" then
    more = string.format(", c_data = LEFT(CONCAT('%d %d %d %d %d %.2f | ', c_data), 500)", c, cd, cw, d, w, amount)
  end
  run(
    "UPDATE customer SET c_balance = c_balance - %.2f, c_ytd_payment = c_ytd_payment + %.2f, c_payment_cnt = c_payment_cnt + 1%s "
      .. "WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d",
    amount, amount, more, cw, cd, c
  )
  run(
    "INSERT INTO history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data) "
      .. "VALUES (%d, %d, %d, %d, %d, NOW(), %.2f, '%s    %s')",
    cd, cw, c, d, w, amount, w_name, d_name
  )
  run("COMMIT")
end

local function order_status()
  local w, d = warehouse(), sysbench.rand.uniform(1, DISTRICTS)
  run("BEGIN")
  local c = customer(w, d, "c_balance, c_first, c_middle, c_last")
  local order = row(
    "SELECT o_id, o_carrier_id, o_entry_d FROM orders WHERE o_w_id = %d AND o_d_id = %d AND o_c_id = %d ORDER BY o_id DESC LIMIT 1",
    w, d, c
  )
  run(
    "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line "
      .. "WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %s",
    w, d, order
  )
  run("COMMIT")
end

local function delivery()
  local w, carrier = warehouse(), sysbench.rand.uniform(1, 10)
  run("BEGIN")
  for d = 1, DISTRICTS do
    local order = row(
      "SELECT no_o_id FROM new_orders WHERE no_w_id = %d AND no_d_id = %d ORDER BY no_o_id LIMIT 1 FOR UPDATE", w, d
    )
    if order then
      run("DELETE FROM new_orders WHERE no_w_id = %d AND no_d_id = %d AND no_o_id = %s", w, d, order)
      -- Updates come first. They see orders that were committed after this transaction's first read, and once they have
      -- touched such an order this transaction's reads see it too.
      run("UPDATE orders SET o_carrier_id = %d WHERE o_w_id = %d AND o_d_id = %d AND o_id = %s", carrier, w, d, order)
      local c = row("SELECT o_c_id FROM orders WHERE o_w_id = %d AND o_d_id = %d AND o_id = %s", w, d, order)
      run("UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %s", w, d, order)
      local amount = row("SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %s", w, d, order)
      run(
        "UPDATE customer SET c_balance = c_balance + %s, c_delivery_cnt = c_delivery_cnt + 1 "
          .. "WHERE c_w_id = %d AND c_d_id = %d AND c_id = %s",
        amount, w, d, c
      )
    end
  end
  run("COMMIT")
end

local function stock_level()
  local w, d, least = warehouse(), sysbench.rand.uniform(1, DISTRICTS), sysbench.rand.uniform(10, 20)
  run("BEGIN")
  local order = row("SELECT d_next_o_id FROM district WHERE d_w_id = %d AND d_id = %d", w, d)
  run(
    "SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id < %s AND ol_o_id >= %s - 20 "
      .. "AND s_w_id = ol_w_id AND s_i_id = ol_i_id AND s_quantity < %d",
    w, d, order, order, least
  )
  run("COMMIT")
end

function thread_init()
  connection = sysbench.sql.driver():connect()
end

function event()
  local which = sysbench.rand.uniform(1, 100)
  if which <= 45 then
    new_order()
  elseif which <= 88 then
    payment()
  elseif which <= 92 then
    order_status()
  elseif which <= 96 then
    delivery()
  else
    stock_level()
  end
end

function thread_done()
  connection:disconnect()
end

-- A lock wait that times out leaves a transaction half done, so it is rolled back and the event begins again.
function sysbench.hooks.before_restart_event()
  connection:query("ROLLBACK")
end
