-- All of it, beside a few megabytes that stay: what an embedded interpreter does all day.
local here = ...
local keep = {}
for i = 1, 60000 do keep[i] = { i, tostring(i) } end
for _, name in ipairs { "tables", "strings", "closures" } do assert(loadfile(here .. "/" .. name .. ".lua"))() end
assert(#keep == 60000 and keep[60000][2] == "60000")
