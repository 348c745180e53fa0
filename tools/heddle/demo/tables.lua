-- Tables that grow, strings that are built and cut, closures and short-lived objects; ends with checks of its results.
-- Everything is computed from a small generator of our own, so that each run does exactly the same.

local seed = 20251
local function random(limit)
  seed = (seed * 1103515245 + 12345) % 2147483648
  return seed // 65536 % limit + 1
end

-- A log of text lines, parsed back into records.
local function make_log(count)
  local lines = {}
  for i = 1, count do
    lines[i] = ("%06d user%03d %s /page/%d"):format(i, random(400), i % 7 == 0 and "PUT" or "GET", random(900))
  end
  return table.concat(lines, "\n")
end

local function parse_log(text)
  local by_user, total = {}, 0
  for id, user, verb, page in text:gmatch("(%d+) (%S+) (%u+) (%S+)") do
    local list = by_user[user]
    if not list then list = {}; by_user[user] = list end
    list[#list + 1] = { id = tonumber(id), verb = verb, page = page }
    total = total + 1
  end
  return by_user, total
end

-- A binary search tree of small tables, filled and emptied in another order.
local function insert(node, key)
  if not node then return { key = key } end
  local parent = node
  while true do
    local side = key < parent.key and "left" or "right"
    if not parent[side] then parent[side] = { key = key }; return node end
    parent = parent[side]
  end
end

local function walk(node, visit)
  if not node then return end
  walk(node.left, visit); visit(node.key); walk(node.right, visit)
end

local function check(what, got, expected)
  if got ~= expected then error(("%s: got %s, expected %s"):format(what, got, expected), 0) end
end

local rounds = tonumber(arg and arg[1]) or 4
for _ = 1, rounds do
  local by_user, total = parse_log(make_log(40000))
  check("records", total, 40000)
  local puts = 0
  for _, list in pairs(by_user) do
    for _, record in ipairs(list) do if record.verb == "PUT" then puts = puts + 1 end end
  end
  check("puts", puts, 40000 // 7)

  local root, keys = nil, {}
  for i = 1, 15000 do keys[i] = i end
  for i = #keys, 2, -1 do local j = random(i); keys[i], keys[j] = keys[j], keys[i] end
  for _, key in ipairs(keys) do root = insert(root, key) end
  local expected = 0
  walk(root, function(key) expected = expected + 1; check("order", key, expected) end)
  check("tree", expected, 15000)

  local words = {}
  for i = 1, 60000 do words[i] = ("w"):rep(random(40)) .. i end
  table.sort(words)
  local joined = table.concat(words, " ")
  local count = 0
  for word in joined:gmatch("%S+") do count = count + #word:sub(-1) end
  check("words", count, 60000)
end
print("lua ok")
