-- The dissector: a walk over the tables above, as hopwire's own careful reader walks them.
--
--   a connection    greetings, commands and messages of ZMTP, whose frames may be spread over many packets
--   a message       one hopwire message, in the format that it claims; or a train of them in one frame
--   an item         one value of a message, under the name that `hopwire decode` has for it
--
-- A bad message is shown up to the fault, with hopwire's reason for it in hopwire.error.

local hopwire = Proto("hopwire", "hopwire")

local KINDS = {
  number = function(filter, name, title) return ProtoField.int64(filter, name, base.DEC, nil, nil, title) end,
  bytes = function(filter, name, title) return ProtoField.bytes(filter, name, base.NONE, title) end,
  text = function(filter, name, title) return ProtoField.string(filter, name, base.UNICODE, title) end,
  flag = function(filter, name) return ProtoField.bool(filter, name) end,
}
local OURS = {
  {name = "format", kind = "text", title = "Wire format"},
  {name = "contract", kind = "text", title = "Identity and version"},
  {name = "extensions", kind = "bytes", title = "Extension frame"},
  {name = "error", kind = "text", title = "Reason why the message is bad"},
  {name = "error.field", kind = "text", title = "Where the message is bad"},
  {name = "train.message_count", kind = "number", title = "Messages in the train"},
  {name = "train.queued_at_ns", kind = "number", title = "When the last message was queued, by the sender's own clock"},
  {name = "zmtp.mechanism", kind = "text", title = "Mechanism of the connection"},
  {name = "zmtp.command", kind = "text", title = "Command"},
  {name = "zmtp.property", kind = "text", title = "Property of the socket"},
}
local fields, kind_of, registered = {}, {}, {}
for _, list in ipairs({FILTERS, OURS}) do
  for _, each in ipairs(list) do
    fields[each.name] = KINDS[each.kind]("hopwire." .. each.name, each.name, each.title)
    kind_of[each.name] = each.kind
    registered[#registered + 1] = fields[each.name]
  end
end
hopwire.fields = registered
local bad = ProtoExpert.new("hopwire.bad", "Bad message", expert.group.MALFORMED, expert.severity.ERROR)
local secret = ProtoExpert.new("hopwire.encrypted", "Encrypted", expert.group.SECURITY, expert.severity.NOTE)
hopwire.experts = {bad, secret}

local stream_of = Field.new("tcp.stream")
local mechanisms = {}  -- of connections, by their stream
function hopwire.init() mechanisms = {} end

-- bytes: positions count from 0, as everywhere in hopwire

local function hex(data) return (data:gsub(".", function(c) return string.format("%02x", c:byte()) end)) end

local function unsigned(data, at, width)
  local value = 0
  for index = at + width, at + 1, -1 do value = value * 256 + data:byte(index) end
  return value
end

local function signed(data, at, width)
  local value = unsigned(data, at, width)
  return value >= 2 ^ (8 * width - 1) and value - 2 ^ (8 * width) or value
end

local function big(data, at, width)
  local value = 0
  for index = at + 1, at + width do value = value * 256 + data:byte(index) end
  return value
end

-- Give bytes as text if they are printable, else as hex; at most 64 bytes of them.
local function printable(data)
  local short = data:sub(1, 64)
  local shown = #data > 0 and not short:find("[^\32-\126]") and short or "0x" .. hex(short)
  return #data > 64 and shown .. "..., " .. #data .. " bytes" or shown
end

-- Give where text stops to be UTF-8, or nil.
local function not_utf8(data)
  local at, size = 1, #data
  while at <= size do
    local first, second = data:byte(at), data:byte(at + 1) or 0
    local more = first < 0x80 and 0 or first >= 0xc2 and first <= 0xdf and 1 or first >= 0xe0 and first <= 0xef and 2
      or first >= 0xf0 and first <= 0xf4 and 3
    if not more or at + more > size then return at - 1 end
    if (first == 0xe0 and second < 0xa0) or (first == 0xed and second > 0x9f)
      or (first == 0xf0 and second < 0x90) or (first == 0xf4 and second > 0x8f) then return at - 1 end
    for index = at + 1, at + more do
      local byte = data:byte(index)
      if byte < 0x80 or byte > 0xbf then return at - 1 end
    end
    at = at + more + 1
  end
end

-- the walk over one message

local Walk = {}
Walk.__index = Walk

local function refuse(reason, detail, frame, byte, field)
  error({reason = reason, detail = detail, frame = frame, byte = byte, field = field}, 0)
end

-- `frames` are {at, size} within `data`; `data` is everything that the segment holds.
function Walk.new(fmt, data, frames)
  return setmetatable({fmt = fmt, data = data, frames = frames, items = {}, values = {}, places = {}, texts = {}}, Walk)
end

function Walk:frame(index)
  local frame = self.frames[index + 1]
  return self.data:sub(frame.at + 1, frame.at + frame.size)
end

function Walk:found(index, start, stop, name, value, skipped)
  local at = self.frames[index + 1].at
  local item = {frame = index, at = at + start + (skipped or 0), stop = at + stop, name = name, kind = value.kind}
  if value.kind == "number" then
    local width = stop - start
    if width <= 4 then
      item.value = (value.is_signed and signed or unsigned)(self.data, at + start, width)
    else
      item.is_long = true
    end
    self.values[name] = item.value
  elseif value.kind == "text" then
    self.texts[#self.texts + 1] = {item = item, byte = start + (skipped or 0)}
  end
  self.places[name] = {index, start}
  self.items[#self.items + 1] = item
end

function Walk:blame(reason, name, detail)
  refuse(reason, detail, self.places[name][1], self.places[name][2], name)
end

function Walk:check_width(index, value, widths)
  local size, most, fits = self.frames[index + 1].size, 0, #widths == 0
  for _, width in ipairs(widths) do
    fits, most = fits or width == size, math.max(most, width)
  end
  if not fits then
    refuse("bad_width", "found " .. size .. " bytes", index, math.min(size, most), value.name)
  end
end

function Walk:read_lanes(index, start, lanes)
  for _, lane in ipairs(lanes) do self:found(index, start + lane.at, start + lane.at + 2, lane.name, lane) end
end

function Walk:read_tail()
  for _, word in ipairs(self.fmt.words) do
    local index = #self.frames - word.k
    if #word.lanes > 0 then
      self:check_width(index, word, {8})
      self:read_lanes(index, 0, word.lanes)
    else
      self:check_width(index, word, word.widths)
      self:found(index, 0, self.frames[index + 1].size, word.name, word)
    end
  end
end

function Walk:need(index, at, width, stop, name)
  if stop - at < width then refuse("truncated", "needs " .. width .. " bytes", index, at, name) end
end

function Walk:read_length(index, at, stop, name)
  self:need(index, at, 4, stop, name)
  local size = signed(self.data, self.frames[index + 1].at + at, 4)
  if size < 0 then refuse("negative_length", "found " .. size, index, at, name) end
  if size > stop - at - 4 then refuse("bad_length", "found " .. size, index, at, name) end
  return at + 4 + size
end

function Walk:read_item(index, at, stop, value, name)
  if value.width then
    self:need(index, at, value.width, stop, name)
    self:found(index, at, at + value.width, name, value)
    return at + value.width
  end
  local after = self:read_length(index, at, stop, name)
  self:found(index, at, after, name, value, 4)
  return after
end

local SIZE = {kind = "number", is_signed = true}

function Walk:read_packed(index, at, block)
  local count, stop = self.values[block.block .. ".count"], self.frames[index + 1].size
  self:check_entries(block.block, count)
  if count * block.smallest > stop - at then
    self:blame("bad_count", block.block .. ".count", count .. " entries do not fit")
  end
  for number = 0, count - 1 do
    local name = block.block .. "[" .. number .. "]"
    local after = self:read_length(index, at, stop, name .. ".size")
    self:found(index, at, at + 4, name .. ".size", SIZE)
    at = at + 4
    for _, entry in ipairs(block.entry) do at = self:read_item(index, at, after, entry, name .. "." .. entry.name) end
    at = after
  end
  return at
end

function Walk:read_meta_frame(index)
  local at, stop = 0, self.frames[index + 1].size
  for _, item in ipairs(self.fmt.items) do
    if item.block then
      at = self:read_packed(index, at, item)
    elseif #item.lanes > 0 then
      self:need(index, at, 8, stop, item.name)
      self:read_lanes(index, at, item.lanes)
      at = at + 8
    else
      at = self:read_item(index, at, stop, item, item.name)
    end
  end
  if at < stop then refuse("trailing_bytes", stop - at .. " bytes too many", index, at) end
end

function Walk:check_entries(name, count)
  if count > LIMITS.max_entries then self:blame("too_many_entries", name .. ".count", "found " .. count) end
end

function Walk:check_place(name, offset, bottom, top, floor)
  local count, tail = #self.frames, self.fmt.tail
  if floor == tail and self.fmt.retired_tails[bottom - 1] then
    self:blame("retired_layout", name .. ".offset", "a tail of " .. bottom - 1 .. " frames")
  end
  local may_leave_gap = floor > tail or not self.fmt.has_retired_tails
  if offset <= floor or offset > count or (bottom - 1 > floor and not may_leave_gap) then
    self:blame("bad_offset", name .. ".offset", "found " .. offset)
  end
  if bottom <= floor or top > count then
    self:blame("bad_count", name .. ".count", top - bottom + 1 .. " frames do not fit")
  end
end

function Walk:read_run(run, floor)
  local count, offset = self.values[run.name .. ".count"] or 0, self.values[run.name .. ".offset"] or 0
  local stride = self.values[run.name .. ".stride"]
  if offset == -1 or count == 0 then return floor end
  if count < 0 then self:blame("bad_count", run.name .. ".count", "found " .. count) end
  self:check_entries(run.name, count)
  if stride < #run.entry then self:blame("bad_stride", run.name .. ".stride", "found " .. stride) end
  local top = offset + count * stride - 1
  self:check_place(run.name, offset, offset, top, floor)
  for number = 0, count - 1 do
    local first = #self.frames - top + (number + 1) * stride - #run.entry
    for place, entry in ipairs(run.entry) do
      local index = first + place - 1
      self:check_width(index, entry, entry.width and {entry.width} or {})
      self:found(index, 0, self.frames[index + 1].size, run.name .. "[" .. number .. "]." .. entry.name, entry)
    end
  end
  return top
end

function Walk:read_body(run, floor)
  local count, offset = self.values["body_frames.count"], self.values["body_frames.offset"]
  if count < 1 then self:blame("bad_count", "body_frames.count", "found " .. count) end
  self:check_place("body_frames", offset, offset - count + 1, offset, floor)
  local first = #self.frames - offset
  for number = 0, count - 1 do
    self:found(first + number, 0, self.frames[first + number + 1].size, "body_frames[" .. number .. "]", run.entry[1])
  end
  if self.fmt.has_meta_frame then
    for index = first + count, #self.frames - 2 do
      local name = "extensions[" .. index - first - count .. "]"
      self:found(index, 0, self.frames[index + 1].size, name, {kind = "bytes"})
    end
  end
  return offset
end

function Walk:read()
  local fmt, count = self.fmt, #self.frames
  if count < fmt.fewest_frames then refuse("too_few_frames", "found " .. count) end
  if fmt.has_meta_frame then self:read_meta_frame(count - 1) else self:read_tail() end
  local floor = fmt.tail
  for number = #fmt.runs, 1, -1 do
    local run = fmt.runs[number]
    floor = run.name == "body_frames" and self:read_body(run, floor) or self:read_run(run, floor)
  end
  local top = count - floor
  if top >= 2 and self.frames[top].size == 0 then
    self:found(top - 2, 0, self.frames[top - 1].size, "socket_identity", {kind = "bytes"})
  end
  for _, text in ipairs(self.texts) do
    local item = text.item
    local wrong = not_utf8(self.data:sub(item.at + 1, item.stop))
    if wrong then refuse("invalid_utf8", "text that is not UTF-8", item.frame, text.byte + wrong, item.name) end
  end
end

-- which format it is

local function begins(data, frame, number) return hex(data:sub(frame.at + 1, frame.at + #number / 2)) == number end

local function claims(fmt, data, frames)
  local frame = frames[#frames + 1 - fmt.number_at]
  if #frames < fmt.claims_from or not frame then return false end
  for _, number in ipairs(fmt.numbers) do
    local is_whole = frame.size == #number / 2
    if frame.size >= #number / 2 and begins(data, frame, number) then
      if fmt.has_meta_frame then
        return frame.size > 4 or not WHOLE_FRAME_NUMBERS[hex(data:sub(frame.at + 1, frame.at + frame.size))]
      end
      if is_whole then return true end
    end
  end
  return false
end

local function unclaimed(data, frames)
  local place = FORMATS[1].number_at
  local frame = frames[#frames + 1 - place]
  local number = frame and frame.size == 4 and hex(data:sub(frame.at + 1, frame.at + 4)) or ""
  if RETIRED[number] then return {reason = "retired_version", detail = RETIRED[number], frame = #frames - place} end
  if number == FORMATS[1].numbers[1] or #frames < 2 then
    return {reason = "too_few_frames", detail = "found " .. #frames}
  end
  return {reason = "unknown_version", detail = "no format has this number", frame = #frames - 1}
end

-- Give the walk that reads the message, or the first that tried, and what is wrong.
local function read_message(data, frames)
  local first, first_fault, right
  for _, fmt in ipairs(FORMATS) do
    if claims(fmt, data, frames) then
      local walk = Walk.new(fmt, data, frames)
      local is_read, fault = pcall(walk.read, walk)
      if not is_read and type(fault) ~= "table" then error(fault, 0) end
      if is_read and right then
        return right, {reason = "ambiguous_version", detail = "two formats fit whole", frame = #frames - 1}
      end
      right = right or (is_read and walk) or nil
      if not first then first, first_fault = walk, not is_read and fault or nil end
    end
  end
  if right then return right, nil end
  if first then return first, first_fault end
  return nil, unclaimed(data, frames)
end

-- hopwire's own extension: a map of MessagePack

-- Give what stands at `at`: its kind, where its bytes begin and end, and where the next value begins.
local function unpacked(data, at, depth)
  local code = data:byte(at + 1)
  if not code or depth > 32 then error({reason = "bad_extension", detail = "the map is cut off"}, 0) end
  local function sized(kind, head, size)
    if at + 1 + head + size > #data then error({reason = "bad_extension", detail = "the map is cut off"}, 0) end
    return {kind = kind, at = at + 1 + head, stop = at + 1 + head + size}, at + 1 + head + size
  end
  local function counted(head) sized("", 0, head) return big(data, at + 1, head) end
  local function many(count, head)
    local next_at, values = at + 1 + head, {}
    for index = 1, count do values[index], next_at = unpacked(data, next_at, depth + 1) end
    return {kind = "many", values = values}, next_at
  end
  if code <= 0x7f then return {kind = "number", at = at, stop = at + 1, value = code}, at + 1 end
  if code <= 0x8f then return many(2 * (code - 0x80), 0) end
  if code <= 0x9f then return many(code - 0x90, 0) end
  if code <= 0xbf then return sized("text", 0, code - 0xa0) end
  if code == 0xc0 then return {kind = "nothing"}, at + 1 end
  if code == 0xc2 or code == 0xc3 then return {kind = "flag", at = at, stop = at + 1, value = code == 0xc3}, at + 1 end
  if code >= 0xc4 and code <= 0xc6 then local w = 2 ^ (code - 0xc4) return sized("bytes", w, counted(w)) end
  if code >= 0xc7 and code <= 0xc9 then local w = 2 ^ (code - 0xc7) return sized("other", w + 1, counted(w)) end
  if code == 0xca or code == 0xcb then return sized("other", 0, code == 0xca and 4 or 8) end
  if code >= 0xcc and code <= 0xcf then
    local value, next_at = sized("number", 0, 2 ^ (code - 0xcc))
    if code < 0xcf then value.value = big(data, value.at, 2 ^ (code - 0xcc)) else value.is_long = true end
    return value, next_at
  end
  if code >= 0xd0 and code <= 0xd3 then
    local width = 2 ^ (code - 0xd0)
    local value, next_at = sized("number", 0, width)
    local number = width < 8 and big(data, value.at, width)
    if number then value.value = number >= 2 ^ (8 * width - 1) and number - 2 ^ (8 * width) or number end
    value.is_long = width == 8
    return value, next_at
  end
  if code >= 0xd4 and code <= 0xd8 then return sized("other", 1, 2 ^ (code - 0xd4)) end
  if code >= 0xd9 and code <= 0xdb then local w = 2 ^ (code - 0xd9) return sized("text", w, counted(w)) end
  if code == 0xdc or code == 0xdd then local w = code == 0xdc and 2 or 4 return many(counted(w), w) end
  if code == 0xde or code == 0xdf then local w = code == 0xde and 2 or 4 return many(2 * counted(w), w) end
  if code >= 0xe0 then return {kind = "number", at = at, stop = at + 1, value = code - 256}, at + 1 end
  error({reason = "bad_extension", detail = "a byte that MessagePack does not have"}, 0)
end

local function read_extension(data, at, stop)
  if stop - at > EXTENSION.max_bytes then return nil, {reason = "bad_extension", detail = "it is too large"} end
  local whole = data:sub(1, stop)
  local is_read, map, after = pcall(unpacked, whole, at + #EXTENSION.magic / 2, 0)
  if not is_read and type(map) ~= "table" then error(map, 0) end
  if not is_read then return nil, map end
  local code = data:byte(at + #EXTENSION.magic / 2 + 1)
  local is_map = (code >= 0x80 and code <= 0x8f) or code == 0xde or code == 0xdf
  if not is_map or after ~= stop then return nil, {reason = "bad_extension", detail = "it is no map"} end
  local found = {}
  for index = 1, #map.values, 2 do
    local key, value = map.values[index], map.values[index + 1]
    for _, field in ipairs(EXTENSION.fields) do
      if key.kind == "text" and data:sub(key.at + 1, key.stop) == field.key then
        if value.kind ~= field.kind then return nil, {reason = "bad_extension", detail = field.name} end
        value.name = "extension." .. field.name
        found[#found + 1] = value
      end
    end
  end
  return found
end

-- the tree

local function add_item(tree, tvb, data, item)
  local name = item.name:gsub("%[%d+%]", "")
  local field = fields[name]
  if kind_of[name] ~= item.kind then field = fields[name .. "_raw"] end
  local range = tvb(item.at, item.stop - item.at)
  local added, shown
  if item.kind == "number" then
    local value = item.value
    if item.is_long then value = item.is_big and range:int64() or range:le_int64() end
    added, shown = tree:add(field, range, item.is_long and value or Int64.new(value)), tostring(value)
    if not item.is_long then shown = string.format("%d", value) end
  elseif item.kind == "flag" then
    added, shown = tree:add(field, range, item.value), tostring(item.value)
  elseif item.kind == "text" then
    added = tree:add_packet_field(field, range, ENC_UTF_8 + ENC_STRING)
    shown = data:sub(item.at + 1, item.stop)
    if shown:find("%c") or not_utf8(shown) then shown = "0x" .. hex(shown) end
    if #shown > 160 then shown = shown:sub(1, 160):gsub("[\192-\255]?[\128-\191]*$", "") .. "..." end
  else
    added, shown = tree:add(field, range), printable(data:sub(item.at + 1, item.stop))
  end
  added:set_text(item.name .. ": " .. (item.at == item.stop and "not set" or shown))
  return added
end

local function add_fault(tree, fault)
  local where = (fault.frame and "frame " .. fault.frame or "") .. (fault.byte and ", byte " .. fault.byte or "")
  tree:add(fields["error"], fault.reason):set_generated(true)
  if fault.field then tree:add(fields["error.field"], fault.field):set_generated(true) end
  tree:add_proto_expert_info(bad, fault.reason .. ": " .. fault.detail .. (where ~= "" and " (" .. where .. ")" or ""))
end

local function add_extension(tree, tvb, data, item)
  local values, fault = read_extension(data, item.at, item.stop)
  if fault then add_fault(tree, fault) return end
  for _, value in ipairs(values) do
    value.is_big = true
    add_item(tree, tvb, data, value)
  end
end

local function contract_of(walk, data)
  local identity, version = "", ""
  for _, item in ipairs(walk.items) do
    local bytes = item.kind ~= "number" and data:sub(item.at + 1, item.stop) or ""
    if item.name == "identity" then identity = #bytes > 0 and printable(bytes) or "(no identity)" end
    if item.name == "version" then version = item.kind == "number" and string.format("%d", item.value) or printable(bytes) end
  end
  return identity .. " v" .. version
end

-- Show one message whose frames stand in `data`, and give the words for it.
local function show_message(tvb, tree, data, frames, at, stop)
  local walk, fault = read_message(data, frames)
  local name = walk and walk.fmt.name or "no format"
  local branch = tree:add(hopwire, tvb(at, stop - at))
  local words = name .. " " .. (walk and not fault and contract_of(walk, data) or "bad: " .. fault.reason)
  branch:set_text("hopwire " .. words .. ", " .. #frames .. " frames, " .. stop - at .. " bytes")
  if walk then branch:add(fields["format"], walk.fmt.name):set_generated(true) end
  if walk and not fault then branch:add(fields["contract"], contract_of(walk, data)):set_generated(true) end
  local items = walk and walk.items or {}
  for number, item in ipairs(items) do item.number = number end
  table.sort(items, function(one, other)
    if one.frame ~= other.frame then return one.frame < other.frame end
    return one.number < other.number
  end)
  for _, item in ipairs(items) do
    if item.name ~= "" then
      local added = add_item(branch, tvb, data, item)
      if item.name:find("^extensions") and hex(data:sub(item.at + 1, item.at + #EXTENSION.magic / 2)) == EXTENSION.magic
      then add_extension(added, tvb, data, item) end
    end
  end
  if fault then add_fault(branch, fault) end
  return words
end

-- trains

local function train_head(data, frame)
  local magic = hex(data:sub(frame.at + 1, frame.at + 4))
  if frame.size < 4 then return nil end
  return magic == TRAIN.magic and 4 or magic == TRAIN.dated and 12 or nil
end

local function uncoupled(data, frame, head)
  local at, stop, messages = frame.at + head, frame.at + frame.size, {}
  if frame.size > TRAIN.max_bytes then return messages, {reason = "too_many_bytes", detail = "a train", frame = 0} end
  local function fault(reason, detail) return messages, {reason = reason, detail = detail, frame = 0, byte = at - frame.at} end
  while at < stop do
    if stop - at < 2 then return fault("bad_train", "the train ends within a length") end
    local count, begin = unsigned(data, at, 2), at
    if count > LIMITS.max_frames then return fault("too_many_frames", "found " .. count) end
    if count < TRAIN.fewest_frames then return fault("bad_train", "a message of " .. count .. " frames") end
    if #messages == TRAIN.max_messages then return fault("bad_train", "too many messages") end
    if stop - at < 2 + 4 * count then return fault("bad_train", "the train ends within a length") end
    local next_at, frames = at + 2 + 4 * count, {}
    for index = 0, count - 1 do
      local size = unsigned(data, at + 2 + 4 * index, 4)
      frames[index + 1] = {at = next_at, size = size}
      next_at = next_at + size
    end
    if next_at > stop then return fault("bad_train", next_at - stop .. " bytes are missing at the end") end
    messages[#messages + 1] = {frames = frames, at = begin, stop = next_at}
    at = next_at
  end
  if #messages == 0 then return fault("bad_train", "there is no message in it") end
  return messages
end

local function show_train(tvb, tree, data, frame, head)
  local messages, fault = uncoupled(data, frame, head)
  local branch = tree:add(hopwire, tvb(frame.at, frame.size))
  branch:set_text("hopwire train of " .. #messages .. " messages, " .. frame.size .. " bytes")
  branch:add(fields["train.message_count"], Int64.new(#messages)):set_generated(true)
  if head == 12 and frame.size >= 12 then
    local time = tvb(frame.at + 4, 8)
    branch:add(fields["train.queued_at_ns"], time, time:le_int64())
  end
  local words = {}
  for _, each in ipairs(messages) do
    words[#words + 1] = show_message(tvb, branch, data, each.frames, each.at, each.stop)
  end
  if fault then add_fault(branch, fault) words[#words + 1] = "bad: " .. fault.reason end
  return "train: " .. table.concat(words, "; ")
end

-- the connection

local GREETING_BYTES = 64

local function show_greeting(tvb, tree, data, at)
  local branch = tree:add(hopwire, tvb(at, GREETING_BYTES), "ZMTP greeting")
  local mechanism = data:sub(at + 13, at + 32):gsub("%z", "")
  branch:add(fields["zmtp.mechanism"], tvb(at + 12, 20), mechanism)
  local stream = stream_of()
  if stream then mechanisms[stream.value] = mechanism end
  return "greeting " .. mechanism
end

local function show_command(tvb, tree, data, begin, frame)
  local at, stop = frame.at, frame.at + frame.size
  local size = frame.size > 0 and math.min(data:byte(at + 1), frame.size - 1) or 0
  local name = printable(data:sub(at + 2, at + 1 + size))
  local branch = tree:add(hopwire, tvb(begin, stop - begin), "ZMTP command " .. name)
  branch:add(fields["zmtp.command"], tvb(at, frame.size), name)
  at = at + 1 + size
  while name == "READY" and at < stop do
    local key_end = at + 1 + data:byte(at + 1)
    if key_end + 4 > stop then break end
    local value_end = key_end + 4 + big(data, key_end, 4)
    if value_end > stop then break end
    local key, value = data:sub(at + 2, key_end), data:sub(key_end + 5, value_end)
    branch:add(fields["zmtp.property"], tvb(at, value_end - at), printable(key) .. "=" .. (value == "" and "" or printable(value)))
    at = value_end
  end
  return name
end

-- Give the frames of the message or command that begins at `at`, where it ends, and whether it is a command. Nil: bytes
-- are missing. False: this is no frame. Only the heads are looked at, so a long message may come in many packets.
local function gather(tvb, at)
  local frames, begin, here = {}, at, tvb:len()
  while true do
    if at >= here then return nil end
    local flags = tvb(at, 1):uint()
    if flags > 6 or flags == 5 or (flags >= 4 and #frames > 0) then return false end
    local is_long = flags % 4 >= 2
    local head = is_long and 9 or 2
    if at + head > here then return nil end
    local size = is_long and tvb(at + 1, 8):uint64():tonumber() or tvb(at + 1, 1):uint()
    if at + head + size - begin > LIMITS.max_bytes or #frames >= LIMITS.max_frames then return false end
    frames[#frames + 1] = {at = at + head, size = size}
    at = at + head + size
    if at > here then return nil end
    if flags % 2 == 0 then return frames, at, flags >= 4 end
  end
end

-- Show what begins at `at`, and give the words for it and where it ends; nil where bytes are missing.
local function show_next(tvb, tree, data, at)
  if tvb(at, 1):uint() == 0xff then
    if at + GREETING_BYTES > tvb:len() then return nil end
    return show_greeting(tvb, tree, data(), at), at + GREETING_BYTES
  end
  local frames, stop, is_command = gather(tvb, at)
  if frames == nil then return nil end
  if frames == false then
    add_fault(tree:add(hopwire, tvb(at)), {reason = "not_zmtp", detail = "no frame of ZMTP begins here"})
    return "not ZMTP", tvb:len()
  end
  if is_command then return show_command(tvb, tree, data(), at, frames[1]), stop end
  local stream = stream_of()
  local mechanism = stream and mechanisms[stream.value] or "NULL"
  if mechanism ~= "NULL" and mechanism ~= "PLAIN" then
    tree:add(hopwire, tvb(at, stop - at), "encrypted message"):add_proto_expert_info(secret, "encrypted by " .. mechanism)
    return "encrypted", stop
  end
  local head = #frames == 1 and train_head(data(), frames[1])
  if head then return show_train(tvb, tree, data(), frames[1], head), stop end
  return show_message(tvb, tree, data(), frames, at, stop), stop
end

function hopwire.dissector(tvb, pinfo, tree)
  local at, said, bytes = 0, {}, nil
  local function data()
    bytes = bytes or tvb:raw(0, tvb:len())
    return bytes
  end
  pinfo.cols.protocol = "hopwire"
  while at < tvb:len() do
    local words, stop = show_next(tvb, tree, data, at)
    if not words then
      pinfo.desegment_offset, pinfo.desegment_len = at, DESEGMENT_ONE_MORE_SEGMENT
      break
    end
    said[#said + 1], at = words, stop
  end
  if #said > 0 then pinfo.cols.info = table.concat(said, ", ") end
  return tvb:len()
end

-- A connection is one of ours if it begins with the greeting of ZMTP. Others are named with "Decode As".
local function is_ours(tvb, pinfo, tree)
  if tvb:len() < 10 or tvb(0, 1):uint() ~= 0xff or tvb(9, 1):uint() ~= 0x7f then return false end
  pinfo.conversation = hopwire
  hopwire.dissector(tvb, pinfo, tree)
  return true
end

hopwire:register_heuristic("tcp", is_ours)
pcall(function() hopwire:register_heuristic("tls", is_ours) end)
DissectorTable.get("tcp.port"):add_for_decode_as(hopwire)
