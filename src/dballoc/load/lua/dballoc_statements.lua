-- The common base of our own workloads on sysbench's tables (sbtest1 … sbtestN): their options, random values, statements that
-- are prepared once a client and table, and events that are a list of words.
--
--   --statements="begin, 10 point, sum, commit"   words of dballoc_words.lua, in this order, each so many times
--
-- Statements go through sysbench's prepare, so that --db-ps-mode decides whether the server sees prepared statements or text.

local zipfian = require("dballoc_zipfian")

sysbench.cmdline.options = {
  tables = { "Number of tables", 1 },
  table_size = { "Rows of a table", 10000 },
  mysql_storage_engine = { "Storage engine", "innodb" },
  statements = { "What an event does: words with their numbers, separated by commas", "" },
  range = { "Rows of a range, ids of a list", 100 },
  ids = { "How ids are drawn: random (as --rand-type says), zipfian, one (always the first)", "random" },
  session = { "Variables that each client sets for itself, like sort_buffer_size=1048576", "" },
}

local C = "###########-###########-###########-###########-###########-###########-###########-###########-###########-###########"
local PAD = "###########-###########-###########-###########-###########"

local base = { integer = {}, c = { C }, pad = { PAD } }

local ids = {
  random = function()
    return function() return sysbench.rand.default(1, sysbench.opt.table_size) end
  end,
  -- The lower the id, the hotter it is; the exponent is that of the published runs.
  zipfian = function()
    return zipfian.new(sysbench.opt.table_size, 0.8, sysbench.rand.uniform_double)
  end,
  one = function()
    return function() return 1 end
  end,
}

--- A random row of a table; set by base.connect.
base.id = nil

--- A random table.
function base.any_table()
  return sysbench.rand.uniform(1, sysbench.opt.tables)
end

--- The one table of this client.
function base.own_table()
  return sysbench.tid % sysbench.opt.tables + 1
end

--- `count` random rows.
function base.list(count)
  local found = {}
  for i = 1, count do
    found[i] = base.id()
  end
  return found
end

--- SQL by name: its text, with %u for the table's number, and the kinds of its parameters in a table. Those of kind base.c and
-- base.pad are filled with random digits, the others with what base.execute is given.
local texts, kinds = {}, {}
function base.define(name, text, of)
  texts[name], kinds[name] = text, of
end

--- The same kind of parameter so many times, for base.define.
function base.many(count, kind)
  local found = {}
  for i = 1, count do
    found[i] = kind
  end
  return found
end

local connection, made

local function make(name, number)
  local statement = connection:prepare(string.format(texts[name], number))
  local parameters, given = {}, {}
  for i, kind in ipairs(kinds[name]) do
    if kind == base.integer then
      parameters[i] = statement:bind_create(sysbench.sql.type.INT)
      given[#given + 1] = parameters[i]
    else
      -- One more for the zero at its end: as text, sysbench prints a parameter up to that.
      parameters[i] = statement:bind_create(sysbench.sql.type.CHAR, #kind[1] + 1)
      parameters[i].template = kind[1]
    end
  end
  if #parameters > 0 then
    statement:bind_param(unpack(parameters))
  end
  return { statement = statement, parameters = parameters, given = given }
end

local function prepare(name)
  made[name] = {}
  for number = 1, texts[name]:find("%%u") and sysbench.opt.tables or 1 do
    made[name][number] = make(name, number)
  end
end

--- Run a statement on table `number` (1 where it names none) with `values` for its integers.
function base.execute(name, number, values)
  local it = made[name][number]
  for i, parameter in ipairs(it.given) do
    parameter:set(values[i])
  end
  for _, parameter in ipairs(it.parameters) do
    if parameter.template then
      parameter:set_rand_str(parameter.template)
    end
  end
  it.statement:execute()
end

--- From "begin, 2 point" to a list of functions; `words` by name: {names of its SQL…, run = function}.
local function compile(text, words)
  local steps, used = {}, {}
  for part in text:gmatch("[^,]+") do
    local count, name = part:match("^%s*(%d*)%s*([%w-]+)%s*$")
    local word = name and words[name]
    if not word then
      error(string.format("--statements: no word %q", part))
    end
    for _ = 1, tonumber(count) or 1 do
      steps[#steps + 1] = word.run
    end
    for _, sql in ipairs(word) do
      used[sql] = true
    end
  end
  if #steps == 0 then
    error("--statements: no word in it")
  end
  return steps, used
end

--- Connect this client and prepare what its event needs; returns the event.
function base.connect(words)
  connection = sysbench.sql.driver():connect()
  if sysbench.opt.session ~= "" then
    connection:query("SET SESSION " .. sysbench.opt.session)
  end
  local draw = ids[sysbench.opt.ids] or error("--ids: random, zipfian or one")
  base.id = draw()
  local steps, used = compile(sysbench.opt.statements, words)
  made = {}
  for name in pairs(used) do
    prepare(name)
  end
  return function()
    for i = 1, #steps do
      steps[i]()
    end
  end
end

--- The end of this client.
function base.disconnect()
  for _, tables in pairs(made) do
    for _, it in pairs(tables) do
      it.statement:close()
    end
  end
  connection:disconnect()
end

-- A deadlock or a lock wait begins the event again; without this, what a lock wait leaves of a transaction would be committed by
-- the next BEGIN.
function sysbench.hooks.before_restart_event()
  connection:query("ROLLBACK")
end

return base
