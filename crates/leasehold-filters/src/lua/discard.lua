-- Removes what a late writer has made of shards that are gone: bits without a stamp.
-- KEYS shards
for _, key in ipairs(KEYS) do
  if redis.call('GETRANGE', key, 0, 7) == string.rep('\0', 8) then redis.call('UNLINK', key) end
end
