-- KEYS: the record. ARGV: token(16). Answer: E ended | N not held | O base(16) of another lease | X why;
-- in lower case as in release.lua
local key, token = KEYS[1], ARGV[1]
local rec, why = read(key)
if rec == false then return 'X' .. why end
if not rec then return 'N' end
local live, named = alive(rec), token >= rec.base and token <= rec.top
if live and not named then return 'O' .. rec.base end
if named and rec.state ~= 'F' then
  -- The release is valid even if no message reaches the holder: it detects the loss at its next renewal.
  if live and rec.state ~= 'K' then
    redis.pcall('PUBLISH', channel(rec.owner), 'L' .. rec.owner .. rec.base .. key)
  end
  expire(rec)
  hand_on(key, rec, nil)
end
local answer = live and 'E' or 'N'
return rec.more and string.lower(answer) or answer
