-- KEYS: one record each. ARGV: one ask each. The answers, a line each.
for i, key in ipairs(KEYS) do
  answers[i] = answers[i] or guarded(acquire, key, parse(ARGV[i]))
end
return table.concat(answers, '\n')
