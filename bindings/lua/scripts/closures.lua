-- Closures with upvalues, coroutines, objects with metatables: many small blocks of a few sizes.
local rounds = (rounds or 1) * 4
local total = 0
local Point = {}
Point.__index = Point
Point.__add = function(a, b) return setmetatable({ x = a.x + b.x, y = a.y + b.y }, Point) end
for round = 1, rounds do
  local made = {}
  for i = 1, 15000 do
    local count = i
    made[i] = function(step) count = count + step return count end
  end
  for i = 1, 15000 do total = total + made[i](1) - i end
  local sum = setmetatable({ x = 0, y = 0 }, Point)
  for i = 1, 15000 do sum = sum + setmetatable({ x = 1, y = i }, Point) end
  total = total + sum.x
  for i = 1, 800 do
    local walk = coroutine.wrap(function() for k = 1, 5 do coroutine.yield(k) end end)
    for k = 1, 5 do total = total + walk() - k + 1 end
  end
end
assert(total == rounds * (15000 + 15000 + 4000), total)
