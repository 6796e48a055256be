-- Random values of the TPC-C specification (clauses 2.1.6, 4.3.2, 4.3.3): non-uniform numbers, last names, texts.

local bit = require("bit")

local random = {}

local PARTS = { "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING" }
local NAMES = 1000

-- The specification's constant C: any value will do, if loading and running use the same.
local C_NAME, C_CUSTOMER, C_ITEM = 123, 987, 5432

--- NURand(A, x, y): a non-uniform random number of x … y; some come up much more often than others.
local function uneven(a, constant, low, high)
  local both = bit.bor(sysbench.rand.uniform(0, a), sysbench.rand.uniform(low, high))
  return (both + constant) % (high - low + 1) + low
end

--- Return a random customer's number.
function random.customer(customers)
  return uneven(1023, C_CUSTOMER, 1, customers)
end

--- Return a random item's number.
function random.item(items)
  return uneven(8191, C_ITEM, 1, items)
end

--- Return the number of a last name that some customer of the district has. The first thousand customers have them in order.
function random.name_number(customers)
  return uneven(255, C_NAME, 0, math.min(customers, NAMES) - 1)
end

--- Return the last name of three syllables for a number of 0 … 999.
function random.last_name(number)
  local function part(digit) return PARTS[digit % 10 + 1] end
  return part(math.floor(number / 100)) .. part(math.floor(number / 10)) .. part(number)
end

--- Return `low` to `high` random letters.
function random.letters(low, high)
  return sysbench.rand.string(string.rep("@", sysbench.rand.uniform(low, high or low)))
end

--- Return random digits.
function random.digits(count)
  return sysbench.rand.string(string.rep("#", count))
end

--- Return random letters, in one case of ten with ORIGINAL among them.
function random.original(low, high)
  local text = random.letters(low, high)
  if sysbench.rand.uniform(1, 10) > 1 then
    return text
  end
  local at = sysbench.rand.uniform(0, #text - 8)
  return text:sub(1, at) .. "ORIGINAL" .. text:sub(at + 9)
end

--- Return the numbers 1 … n in random order.
function random.shuffled(n)
  local found = {}
  for i = 1, n do
    local j = sysbench.rand.uniform(1, i)
    found[i] = found[j]
    found[j] = i
  end
  return found
end

return random
