for i, key in ipairs(KEYS) do
  if held == '' then
    answers[i] = guarded(release, key, ARGV[i + 1])
  elseif answers[i] == false then
    answers[i] = guarded(release, key, sub(held, 66 * i - 63, 66 * i) .. '300000000')
  else
    answers[i] = 'R'
  end
end
return table.concat(answers, '\n')
