-- KEYS: the lock, our notes about it (a hash), the tombstone of the attempt, and further keys of the format.
-- ARGV: the step, our value, a number (see each step), a second number, and what the format needs.
local LOCK, NOTES, TOMBSTONE, ME = KEYS[1], KEYS[2], KEYS[3], ARGV[2]
