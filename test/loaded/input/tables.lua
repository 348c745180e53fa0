-- A deterministic Lua script: tables, strings, closures, coroutines. Prints a checksum a round.
local function round(seed)
  local sum, text = seed, {}
  for i = 1, 200000 do
    local t = { i, tostring(i), function() return i end }
    sum = (sum + t[3]() * #t[2]) % 1000000007
    if i % 100 == 0 then text[#text + 1] = string.rep(t[2], i % 37) end
  end
  local all = table.concat(text)
  for word in all:gmatch("%d%d%d") do sum = (sum * 31 + tonumber(word)) % 1000000007 end
  local co = coroutine.wrap(function() for i = 1, 50000 do coroutine.yield({ i }) end end)
  for _ = 1, 50000 do sum = sum + co()[1] end
  collectgarbage()
  return sum, #all
end
for seed = 1, tonumber(arg[1] or 1) do print(round(seed)) end
