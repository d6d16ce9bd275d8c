-- KEYS: one record each. ARGV: one end each. The answers, a line each.
for i, key in ipairs(KEYS) do
  answers[i] = answers[i] or guarded(release, key, ARGV[i])
end
return table.concat(answers, '\n')
