"""Lua scripts for parts of limits. All times are the server's.

`members` is a hash of the routers that use limits: `!` and when one was last heard; `?` for one that others named after the
records were lost, until it starts stating its parts; `~` until it has stated all of them; `-` and the time from which nothing
held by one that left can be in use. `#epoch` is when the hash was created, `#last` when any router was last heard, `#told`
whether the routers from before the hash were named, and `#missed` when a router with unknown parts was last added.

A limit is a hash, too: by router `o:` its part, `w:` its refused request, `f:` when it expects to have something to return; of
budgets `s:` its spending, and by ledger `l:` the spending of routers that are gone. `k:` is the least a ledger had spent, as
another router knew before the server lost its records. `m:` and a `#missed` is the most that all routers heard since held
together: a missing router cannot hold any of that, so it can move between the others.
"""

from router.stores.valkey.link import Script

FORGET_SECONDS = 120.0
"""Silence, while others are heard, after which a router's parts go to the others."""
LEAVE_SECONDS = 62.0
"""How long the usage of a router that left counts: the minute that targets' quotas count it, and a spare. Also how long a
router that was named after a loss of records, and not heard since, counts as there."""
BEAT_SECONDS = 0.5
"""How often a router reports itself."""
_OPEN_SECONDS = 1.5
"""Time without grants after a loss of all records, or at first start, in which routers come back."""
_FRESH_SECONDS = 3.0
"""Longer silence means that a router waits for nothing, and is not awaited after a loss of all records. If all are silent, the
server was away."""
_WANTED_SECONDS = 2.0

_BEGIN = f"""
local FORGET, LEAVE = {FORGET_SECONDS * 1000:.0f}, {LEAVE_SECONDS * 1000:.0f}
local FRESH, OPEN = {_FRESH_SECONDS * 1000:.0f}, {_OPEN_SECONDS * 1000:.0f}
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local members, found = {{}}, redis.call('HGETALL', KEYS[1])
for i = 1, #found, 2 do members[found[i]] = found[i + 1] end
local function time_of(seen) return tonumber(string.sub(seen, 2)) end
-- Whether a router has begun to state its parts. What it said before the records were lost does not count.
local function is_known(seen) return seen and string.sub(seen, 1, 1) ~= '?' end
local function is_missing(seen) return string.find(seen, '^[?~]') end
local function is_there(seen)
  if not seen then return false end
  if string.sub(seen, 1, 1) == '-' then return now < time_of(seen) end
  return now - time_of(seen) < (is_missing(seen) and LEAVE or FORGET)
end
-- How long nothing is given that a missing router may have; -1 where that depends on a router that should be back by now.
local function closed_for()
  local left = OPEN - (now - members['#epoch'])
  if not members['#told'] and left > 0 then return left end
  for name, seen in pairs(members) do
    if string.sub(name, 1, 1) ~= '#' and is_missing(seen) and is_there(seen) then
      local waits = OPEN - (now - time_of(seen))
      return waits > 0 and math.min(waits, 50) or -1
    end
  end
  return 0
end
local function whole(number) return string.format('%.0f', number) end
"""

PRESENT = Script(
    _BEGIN
    + f"""
local me, stage = ARGV[1], ARGV[2]
local function put(name, value)
  members[name] = value
  redis.call('HSET', KEYS[1], name, value)
end
local function miss(name, letter)
  if not members[name] then put('#missed', whole(now)) end
  put(name, letter .. whole(now))
end
if not members['#epoch'] then put('#epoch', whole(now)) end
local was_known, silent = is_known(members[me]), members['#last'] and now - members['#last'] > FRESH
for name, seen in pairs(members) do
  if string.sub(name, 1, 1) ~= '#' then
    if silent and string.sub(seen, 1, 1) ~= '-' then put(name, string.sub(seen, 1, 1) .. whole(now)) end
    if not is_there(members[name]) and name ~= me then
      members[name] = nil
      redis.call('HDEL', KEYS[1], name)
    end
  end
end
if stage == 'begin' and not was_known then
  for i = 3, #ARGV do
    put('#told', '1')
    if not members[ARGV[i]] then miss(ARGV[i], '?') end
  end
  miss(me, '~')
elseif stage == 'leave' then put(me, '-' .. whole(now + tonumber(ARGV[3])))
elseif stage == 'done' and was_known then put(me, '!' .. whole(now))
elseif was_known then put(me, string.sub(members[me], 1, 1) .. whole(now)) end
put('#last', whole(now))
local others = {{}}
for name, seen in pairs(members) do
  if string.sub(name, 1, 1) ~= '#' and name ~= me and string.sub(seen, 1, 1) ~= '-' and now - time_of(seen) < FRESH then
    table.insert(others, name)
  end
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - {_WANTED_SECONDS * 1000:.0f})
return {{was_known and 1 or 0, others, redis.call('ZRANGE', KEYS[2], 0, -1)}}
"""
)

OWN = Script(
    _BEGIN
    + """
local me, name, ledger = ARGV[1], ARGV[2], ARGV[3]
local keep, least, want = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local limit, frees = tonumber(ARGV[7]), tonumber(ARGV[8])
local own_spent, base, is_sum = tonumber(ARGV[9]), tonumber(ARGV[10]), ARGV[11] == '1'
if not is_known(members[me]) then return {-1} end
local others, unmet, of_ledger, frees_at = 0, 0, own_spent, -1
local sums, least_sums, most, most_since = {}, {}, 0, members['#missed'] or members['#epoch']
local function add(to, value) sums[to] = (sums[to] or 0) + value end
if ledger ~= '' then add(ledger, own_spent) end
local active, is_active, fields = 1, {}, redis.call('HGETALL', KEYS[2])
for i = 1, #fields, 2 do
  local kind, owner, value = string.sub(fields[i], 1, 2), string.sub(fields[i], 3), tonumber(fields[i + 1])
  local from
  if kind == 's:' then from, owner = string.match(owner, '^([^|]*)|(.*)$') end
  if kind == 'l:' then add(owner, value)
  elseif kind == 'k:' then least_sums[owner] = value
  elseif kind == 'm:' and owner == most_since then most = value
  elseif owner ~= me then
    if not is_there(members[owner]) then
      redis.call('HDEL', KEYS[2], fields[i])
      if kind == 's:' then
        redis.call('HINCRBY', KEYS[2], 'l:' .. from, whole(value))
        add(from, value)
      end
    elseif kind == 'o:' then
      others, is_active[owner] = others + value, is_active[owner] or value > 0
    elseif kind == 'w:' then
      if value > 0 and now - time_of(members[owner]) < FRESH then unmet, is_active[owner] = unmet + value, true end
    elseif kind == 'f:' and value > now and (frees_at < 0 or value < frees_at) then frees_at = value
    elseif kind == 's:' then
      add(from, value)
      if from == ledger then of_ledger = of_ledger + value end
    end
  end
end
if ledger ~= '' then
  local known = tonumber(redis.call('HGET', KEYS[2], 'l:' .. ledger) or '0')
  if is_sum then base = base - of_ledger end
  if base > known then
    redis.call('HSET', KEYS[2], 'l:' .. ledger, whole(base))
    add(ledger, base - known)
    known = base
  end
  redis.call('HSET', KEYS[2], 's:' .. ledger .. '|' .. me, whole(own_spent))
  base = known
end
for i = 12, #ARGV, 2 do
  local of, least_sum = ARGV[i], tonumber(ARGV[i + 1])
  if least_sum > math.max(sums[of] or 0, least_sums[of] or 0) then
    redis.call('HSET', KEYS[2], 'k:' .. of, whole(least_sum))
    least_sums[of] = least_sum
  end
end
for of, least_sum in pairs(least_sums) do if least_sum > (sums[of] or 0) then sums[of] = least_sum end end
local spent, elsewhere = 0, {}
for of, sum in pairs(sums) do
  spent = spent + sum
  if of ~= ledger then
    table.insert(elsewhere, of)
    table.insert(elsewhere, sum)
  end
end
local closed, free, grant = closed_for(), limit - others - keep - spent, 0
-- A limit that was lowered, or a router that comes back after it was forgotten: there is more in use than there may be.
local too_much = math.max(0, math.min(keep, -free))
if closed ~= 0 then
  most = math.max(most, others + keep)
  redis.call('HSET', KEYS[2], 'm:' .. most_since, whole(most))
  free = ledger == '' and math.min(free, most - others - keep) or 0
end
for _, is_so in pairs(is_active) do if is_so then active = active + 1 end end
local fair = math.floor(limit / active)
-- While others wait, a router that has its equal part gets what they leave.
local open = unmet > 0 and math.max(math.min(free, fair - keep), free - unmet) or free
if want > 0 and open >= math.max(1, least) then grant = math.min(want, open) end
local missing = grant < least and want or 0
redis.call('HSET', KEYS[2], 'o:' .. me, whole(keep + grant), 'w:' .. me, whole(missing),
  'f:' .. me, whole(frees < 0 and -1 or now + frees))
redis.call('PEXPIRE', KEYS[2], ledger == '' and 86400000 or 3456000000)
if missing > 0 then redis.call('ZADD', KEYS[3], now, name) end
local excess = math.max(0, keep + grant - fair)
return {grant, math.max(0, open - grant), math.max(math.min(excess, unmet), too_much), frees_at < 0 and -1 or frees_at - now,
  closed, others, spent, base, elsewhere}
"""
)
