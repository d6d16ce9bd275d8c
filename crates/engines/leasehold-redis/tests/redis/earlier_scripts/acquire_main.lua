for i, key in ipairs(KEYS) do
  if answers[i] == false then
    local attempt = string.sub(attempts, 32 * i - 31, 32 * i)
    answers[i] = guarded(acquire, key, parse(attempt, ARGV[i + 1] or ARGV[2]))
  else
    answers[i] = 'A' .. NOW_TEXT
  end
end
return table.concat(answers, '\n')
