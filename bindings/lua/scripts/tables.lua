-- Records, indexes and arrays that grow: tables start small and double, so realloc dominates.
local rounds = (rounds or 1) * 4
local total = 0
for round = 1, rounds do
  local rows = {}
  for i = 1, 20000 do rows[i] = { id = i, name = "n" .. (i * 7919 % 10007), list = { i, i + 1, i + 2 } } end
  local index = {}
  for _, row in ipairs(rows) do index[row.name] = (index[row.name] or 0) + #row.list end
  for i = 1, 20000, 2 do rows[i] = false end
  for i = 1, 20000 do if rows[i] then total = total + rows[i].list[3] - rows[i].id end end
  for _, count in pairs(index) do total = total + count end
  local grid = {}
  for y = 1, 40 do
    local line = {}
    for x = 1, 500 do line[x] = x * y end
    grid[y] = line
  end
  total = total + grid[40][500]
end
assert(total == rounds * (20000 + 60000 + 20000), total)
