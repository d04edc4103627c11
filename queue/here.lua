-- here.lua: merge a node's presence into a window's bitmap.
-- KEYS[1]   STRING  here:<generation>:<window>   bitmap, bit = number
-- ARGV      end of the window (ms since the epoch), numbers
-- Returns how many were given.
for i = 2, #ARGV do redis.call('SETBIT', KEYS[1], ARGV[i], 1) end
redis.call('PEXPIREAT', KEYS[1], ARGV[1])
return #ARGV - 1
