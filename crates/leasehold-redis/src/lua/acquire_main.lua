local answers = {}
for i, key in ipairs(KEYS) do answers[i] = guarded(acquire, key, parse(ARGV[i])) end
return answers
