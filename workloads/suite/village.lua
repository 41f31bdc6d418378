-- SPDX-License-Identifier: GPL-2.0-or-later
-- Who meets whom in a village, and what do they tell each other?  Each person, each story and each
-- list of friends is a table or a string of its own, and many become garbage.

local options = { ["--people"] = 100000, ["--count"] = 600000 }
local i = 1
while arg[i] do
	if arg[i] == "--help" then
		print("usage: village.lua [--people N] [--count N]")
		print("  --people N  of the village (100000)")
		print("  --count N   meetings (600000)")
		os.exit(0)
	end
	if not options[arg[i]] then
		io.stderr:write("village.lua: unknown option: ", arg[i], "\n")
		os.exit(2)
	end
	local value = (arg[i + 1] or ""):match("^[1-9]%d*$")
	if not value then
		io.stderr:write("village.lua: ", arg[i], " needs a number of at least 1\n")
		os.exit(2)
	end
	options[arg[i]] = math.tointeger(tonumber(value))
	i = i + 2
end

-- A product below 2^53, as in bigrams.pl.
local state = 1
local function below(n)
	state = state * 48271 % 2147483647
	return state * n // 2147483647
end

local people = {}
for n = 1, options["--people"] do
	people[n] = { name = "person " .. n, friends = {}, stories = {}, heard = 0 }
end

for n = 1, options["--count"] do
	local one = people[1 + below(#people)]
	local other = one.friends[1 + below(4)] or people[1 + below(#people)]
	one.friends[1 + below(4)] = other
	local story = other.stories[1 + below(6)] or { text = other.name .. "'s day " .. n, times = 0 }
	story.times = story.times + 1
	one.stories[1 + below(6)] = story
	one.heard = one.heard + #story.text
end

local checksum = 0
for _, person in ipairs(people) do
	checksum = checksum * 31 + person.heard
	for _, story in pairs(person.stories) do
		checksum = checksum + story.times
	end
end
print(string.format("checksum %016x", checksum))
