-- The common base of dballoc's own workloads on sysbench's tables (sbtest1 … sbtestN): options, random values, statements that
-- each client prepares once for each table, and events that are a list of words.
--
--   --statements="begin, 10 point, sum, commit"   words of dballoc_words.lua, run in this order, with a count before a word
--
-- Statements go through sysbench's prepare call, so --db-ps-mode decides whether the server gets prepared statements or text.

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
  -- Low ids are drawn most often; the exponent is that of the published runs.
  zipfian = function()
    return zipfian.new(sysbench.opt.table_size, 0.8, sysbench.rand.uniform_double)
  end,
  one = function()
    return function() return 1 end
  end,
}

--- Return the id of a random row; base.connect sets this function.
base.id = nil

--- Return the number of a random table.
function base.any_table()
  return sysbench.rand.uniform(1, sysbench.opt.tables)
end

--- Return the number of this client's own table.
function base.own_table()
  return sysbench.tid % sysbench.opt.tables + 1
end

--- Return the ids of `count` random rows.
function base.list(count)
  local found = {}
  for i = 1, count do
    found[i] = base.id()
  end
  return found
end

--- Define SQL by name: its text, with %u for the table's number, and a table with the kinds of its parameters. Parameters of kind
-- base.c and base.pad get random digits; the others get the values that base.execute is given.
local texts, kinds = {}, {}
function base.define(name, text, of)
  texts[name], kinds[name] = text, of
end

--- Return a list with one kind of parameter `count` times, for base.define.
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
      -- One byte more for the zero at the end: as text, sysbench prints a parameter up to its zero byte.
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

--- Turn a text like "begin, 2 point" into a list of functions. `words` maps a word to {names of its SQL…, run = function}.
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

--- Disconnect this client.
function base.disconnect()
  for _, tables in pairs(made) do
    for _, it in pairs(tables) do
      it.statement:close()
    end
  end
  connection:disconnect()
end

-- After a deadlock or a lock wait the event begins again. Without this rollback the next BEGIN would commit what the interrupted
-- transaction had done.
function sysbench.hooks.before_restart_event()
  connection:query("ROLLBACK")
end

return base
