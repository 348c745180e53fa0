-- Tables, closures and strings.
local total = 0
for round = 1, 12 do
  local rows = {}
  for i = 1, 30000 do
    rows[i] = { id = i, name = "n" .. (i * 7919 % 10007), list = { i, i + 1, i + 2 } }
  end
  local index = {}
  for _, row in ipairs(rows) do
    index[row.name] = (index[row.name] or 0) + #row.list
  end
  local parts = {}
  for i = 1, 5000 do parts[i] = string.rep("x", i % 50) .. i end
  total = total + #table.concat(parts, ",")
  for _, count in pairs(index) do total = total + count end
end
assert(total > 12 * 90000)
