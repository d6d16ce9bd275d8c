local answers = {}
for i, key in ipairs(KEYS) do answers[i] = acquire(key, parse(ARGV[i])) end
return answers
