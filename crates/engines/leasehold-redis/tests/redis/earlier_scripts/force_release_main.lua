local key, token = KEYS[1], ARGV[1]
local rec, why = read(key)
if rec == false then return 'X' .. why end
if not rec then return 'N' end
local live, named = alive(rec), token >= rec.base and token <= rec.top
if live and not named then return 'O' .. rec.base end
if named and rec.state ~= 'F' then
  expire(rec)
  hand_on(key, rec, nil)
end
return live and 'E' or 'N'
