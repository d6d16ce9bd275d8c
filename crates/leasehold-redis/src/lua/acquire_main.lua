local answers = {}
for i, key in ipairs(KEYS) do
  answers[i] = fast_acquire(key, ARGV[i]) or guarded(acquire, key, parse(ARGV[i]))
end
return table.concat(answers, '\n')
