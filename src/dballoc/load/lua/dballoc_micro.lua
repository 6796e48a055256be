-- A workload whose events are the words of --statements; see dballoc_statements.lua.

local words = require("dballoc_words")
local perform

function thread_init()
  perform = words.client()
end

function event()
  perform()
end

function thread_done()
  words.disconnect()
end
