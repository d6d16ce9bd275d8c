-- KEYS: one record each. ARGV: one end each. The answers, a line each.
local answers = {}
for i, key in ipairs(KEYS) do
  answers[i] = fast_release(key, ARGV[i]) or guarded(release, key, ARGV[i])
end
return table.concat(answers, '\n')
