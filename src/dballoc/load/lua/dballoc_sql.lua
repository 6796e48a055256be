-- Runs a SQL file: all its statements together are one event. load/sql_workload.py compiles the file to a Lua table, whose path is
-- in DBALLOC_PROGRAM: a list of statements, each a list of texts and parameters. A parameter is {name = …, kind = …, its bounds…};
-- one that was drawn before in the same event has no kind. After an error that sysbench ignores (a deadlock, a lock wait) the event
-- begins again; the BEGIN of the next transaction ends the open one.

local program = dofile(os.getenv("DBALLOC_PROGRAM"))
local connection

local draw = {
  -- Drawn from the distribution of --rand-type, as sysbench's own scripts draw their ids.
  int = function(bounds)
    return string.format("%.0f", bounds[1] + sysbench.rand.default(0, bounds[2] - bounds[1]))
  end,
  string = function(bounds)
    return sysbench.rand.string(string.rep("@", bounds[1]))
  end,
  choice = function(texts)
    return texts[sysbench.rand.uniform(1, #texts)]
  end,
}

function thread_init()
  connection = sysbench.sql.driver():connect()
end

function thread_done()
  connection:disconnect()
end

function event()
  local named = {}
  for _, statement in ipairs(program) do
    local text = {}
    for i, piece in ipairs(statement) do
      if type(piece) == "table" then
        local value = piece.kind and draw[piece.kind](piece) or named[piece.name]
        if piece.name then
          named[piece.name] = value
        end
        piece = value
      end
      text[i] = piece
    end
    connection:query(table.concat(text))
  end
end
