-- KEYS: one record each. ARGV: one ask each. Answers, one each.
for i = first, #KEYS do
  answers[i] = fast_acquire(KEYS[i], ARGV[i]) or guarded(acquire, KEYS[i], parse(ARGV[i]))
end
return answers
