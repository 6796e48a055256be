-- Zipf's distribution on 1 … n, which sysbench 1.0 lacks: p(k) is proportional to k^-exponent.
--
-- Rejection-inversion (Hörmann, Derflinger 1996, "Rejection-inversion to generate variates from monotone discrete distributions"):
-- exact, without a table of n numbers, and with about one uniform number a draw. With h(x) = x^-q and its integral H, a uniform number u
-- between H(1.5) - h(1) and H(n + 0.5) is inverted to x; the nearest whole number k is taken if k - x <= s, which needs no
-- further calculation, or if u >= H(k + 0.5) - h(k).

local zipfian = {}

--- Return a function that draws. `exponent` is positive and not 1; `uniform()` returns a number of [0, 1).
function zipfian.new(n, exponent, uniform)
  local rest = 1 - exponent
  local function h(x) return x ^ -exponent end
  local function integral(x) return x ^ rest / rest end
  local function inverse(y) return (y * rest) ^ (1 / rest) end
  local first, last = integral(1.5) - 1, integral(n + 0.5)
  local s = 2 - inverse(integral(2.5) - h(2))
  return function()
    while true do
      local u = last + uniform() * (first - last)
      local x = inverse(u)
      local k = math.max(1, math.min(n, math.floor(x + 0.5)))
      if k - x <= s or u >= integral(k + 0.5) - h(k) then
        return k
      end
    end
  end
end

return zipfian
