-- The words of --statements: their SQL on sysbench's tables, and how an event runs it. Words with a name from "Small Datum, 2025"
-- do what they do there. Each statement takes a random table, unless its word says otherwise.

local base = require("dballoc_statements")

local words = {}
local int, c, pad = base.integer, base.c, base.pad

-- A word is built only if --statements names it: an unused list of R parameters could be longer than the server accepts.
local makers = {}
setmetatable(words, {
  __index = function(_, name)
    if makers[name] then
      makers[name]()
    end
    return rawget(words, name)
  end,
})

local function define()
  local R = sysbench.opt.range

  --- Return a word that runs one statement with random ids from `values`. `text` may hold %s for a list of R parameters.
  local function word(name, text, kinds, values)
    makers[name] = function()
      local list = kinds == "list"
      base.define(name, list and text:gsub("%%s", string.rep("?", R, ", ")) or text, list and base.many(R, int) or kinds)
      words[name] = { name, run = function() base.execute(name, base.any_table(), values()) end }
    end
  end

  local function id() return { base.id() } end
  local function rows() local low = base.id() return { low, low + R - 1 } end
  local function span() local low = base.id() return { low, low + R } end
  local function list() return base.list(R) end

  word("point", "SELECT c FROM sbtest%u WHERE id = ?", { int }, id)
  word("random-points", "SELECT c FROM sbtest%u WHERE id IN (%s)", "list", list)
  word("hot-points", "SELECT c FROM sbtest%u WHERE id IN (%s)", "list", function()
    local half, found = math.floor(sysbench.opt.table_size / 2), {}
    for i = 1, R do
      found[i] = half + i
    end
    return found
  end)
  for index, column in pairs { pk = "id", si = "k" } do
    local covered = column
    local uncovered = column .. ", c"
    for name, columns in pairs { ["covered-" .. index] = covered, ["notcovered-" .. index] = uncovered } do
      local select = "SELECT " .. columns .. " FROM sbtest%u WHERE " .. column
      word("points-" .. name, select .. " IN (%s)", "list", list)
      word("range-" .. name, select .. " BETWEEN ? AND ?", { int, int }, span)
    end
  end

  local between = " FROM sbtest%u WHERE id BETWEEN ? AND ?"
  word("simple", "SELECT c" .. between, { int, int }, rows)
  word("sum", "SELECT SUM(k)" .. between, { int, int }, rows)
  word("order", "SELECT c" .. between .. " ORDER BY c", { int, int }, rows)
  word("distinct", "SELECT DISTINCT c" .. between .. " ORDER BY c", { int, int }, rows)
  word("count", "SELECT COUNT(c)" .. between, { int, int }, rows)

  word("update-index", "UPDATE sbtest%u SET k = k + 1 WHERE id = ?", { int }, id)
  word("update-nonindex", "UPDATE sbtest%u SET c = ? WHERE id = ?", { c, int }, id)
  local ten = { c, unpack(base.many(10, int)) }
  word("update-inlist", "UPDATE sbtest%u SET c = ? WHERE id IN (" .. string.rep("?", 10, ", ") .. ")", ten, function()
    return base.list(10)
  end)
  word("delete", "DELETE FROM sbtest%u WHERE id = ?", { int }, id)
  word("insert", "INSERT INTO sbtest%u (id, k, c, pad) VALUES (?, ?, ?, ?)", { int, int, c, pad }, function()
    return { 0, base.id() }
  end)
  -- Delete a row and insert it again: two statements with the same id.
  makers.replace = function()
    makers.delete()
    makers.insert()
    words.replace = {
      "delete",
      "insert",
      run = function()
        local number, which = base.any_table(), base.id()
        base.execute("delete", number, { which })
        base.execute("insert", number, { which, base.id() })
      end,
    }
  end

  -- Scan a whole table. Each client has its own; with more clients than tables, several share one.
  base.define("scan", "SELECT * FROM sbtest%u WHERE LENGTH(c) < 0", {})
  words.scan = { "scan", run = function() base.execute("scan", base.own_table(), {}) end }

  -- Read the whole rows of a range, sorted by two wide columns.
  word("sort", "SELECT id, k, c, pad" .. between .. " ORDER BY pad, c", { int, int }, rows)
  -- Group by a column with about one row a group, so the server needs a temporary table.
  word("group", "SELECT pad, COUNT(*), MAX(k)" .. between .. " GROUP BY pad ORDER BY NULL", { int, int }, rows)
  word("create-temporary", "CREATE TEMPORARY TABLE dballoc_own ENGINE = MEMORY AS SELECT id, k, pad" .. between, { int, int }, rows)

  for name, text in pairs {
    begin = "BEGIN",
    commit = "COMMIT",
    ["drop-temporary"] = "DROP TEMPORARY TABLE dballoc_own",
    ["in-memory"] = "SET SESSION tmp_table_size = 16777216",
    ["on-disk"] = "SET SESSION tmp_table_size = 1024",
  } do
    base.define(name, text, {})
    words[name] = { name, run = function() base.execute(name, 1, {}) end }
  end
end

--- Connect this client; returns the event that --statements describes.
function words.client()
  define()
  return base.connect(words)
end

words.disconnect = base.disconnect

return words
