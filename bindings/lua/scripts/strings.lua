-- Strings of many lengths: cut, joined, replaced, formatted.
local rounds = (rounds or 1) * 4
local total = 0
for round = 1, rounds do
  local parts = {}
  for i = 1, 12000 do parts[i] = string.rep("x", i % 50) .. i end
  local text = table.concat(parts, ",")
  local words = 0
  for word in text:gmatch("[^,]+") do words = words + 1 end
  total = total + words
  local replaced = text:gsub("x+", function(run) return "<" .. #run .. ">" end)
  total = total + (replaced:find("<49>49,", 1, true) and 1 or 0)
  local grown = ""
  for i = 1, 600 do grown = grown .. string.format("%05d;", i) end
  total = total + #grown
end
assert(total == rounds * (12000 + 1 + 3600), total)
