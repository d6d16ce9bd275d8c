-- KEYS: the record. ARGV: token(16). Answer: E ended | N not held | O base(16) of another lease | X why
local key, token = KEYS[1], ARGV[1]
local rec, why = read(key)
if rec == false then return 'X' .. why end
local now = time()
if not rec or not alive(rec, now) then return 'N' end
if token < rec.base or token > rec.top then return 'O' .. rec.base end
expire(rec)
hand_on(key, rec, nil, now)
return 'E'
