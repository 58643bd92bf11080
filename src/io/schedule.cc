// The text form of a schedule, which makes a benchmark row replayable.
#include <array>
#include <cctype>
#include <charconv>

#include "attenio/io.h"

namespace attenio {
namespace {

constexpr std::array kDataflows = {Dataflow::kQueryResident, Dataflow::kKeyResident, Dataflow::kScoreResident,
                                   Dataflow::kRowBuffered, Dataflow::kUnfused};
constexpr const char* kDefaultNames[] = {"L2", "L1", "reg"};
constexpr size_t kMaxLevels = 8;  // more than any machine has

Status Wrong(std::string_view word, const char* why) {
  return Status::Error(Code::kInvalidArgument, "schedule: \"%.*s\": %s",
                       static_cast<int>(std::min<size_t>(word.size(), 60)), word.data(), why);
}

bool ParseSize(std::string_view text, int64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && *value >= 1 && text[0] != '+';
}

bool ParseDataflow(std::string_view text, Dataflow* dataflow) {
  for (const Dataflow d : kDataflows) {
    if (text == Name(d)) {
      *dataflow = d;
      return true;
    }
  }
  return false;
}

bool IsLevelName(std::string_view text) {
  if (text.empty() || text.size() > 15 || std::isdigit(static_cast<unsigned char>(text[0]))) return false;
  for (const char c : text) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-' && c != '.') return false;
  }
  return text != "pack";
}

// "[level:][dataflow:]QUERIESxKEYS"
Status ParseTile(std::string_view word, size_t place, LevelTile* tile) {
  std::string_view rest = word;
  std::string_view part[2];
  int parts = 0;
  for (size_t colon = rest.find(':'); colon != std::string_view::npos; colon = rest.find(':')) {
    if (parts == 2) return Wrong(word, "more than level:dataflow:QUERIESxKEYS");
    part[parts++] = rest.substr(0, colon);
    rest.remove_prefix(colon + 1);
  }
  const size_t x = rest.find('x');
  if (x == std::string_view::npos || !ParseSize(rest.substr(0, x), &tile->queries) ||
      !ParseSize(rest.substr(x + 1), &tile->keys)) {
    return Wrong(word, "expected QUERIESxKEYS with sizes from 1, or pack:head, pack:block");
  }
  if (parts > 0 && ParseDataflow(part[parts - 1], &tile->dataflow)) --parts;
  if (parts == 2) return Wrong(word, "unknown dataflow");
  if (parts == 1) {
    if (!IsLevelName(part[0])) return Wrong(word, "a level name has 1 to 15 letters, digits, '.', '_' or '-'");
    tile->level = part[0];
  } else if (place < std::size(kDefaultNames)) {
    tile->level = kDefaultNames[place];
  } else {
    return Wrong(word, "the fourth level and later ones need a name");
  }
  return {};
}

}  // namespace

const char* Name(Dataflow dataflow) {
  switch (dataflow) {
    case Dataflow::kQueryResident:
      return "query-resident";
    case Dataflow::kKeyResident:
      return "key-resident";
    case Dataflow::kScoreResident:
      return "score-resident";
    case Dataflow::kRowBuffered:
      return "row-buffered";
    case Dataflow::kUnfused:
      return "unfused";
  }
  return "";
}

std::string Schedule::ToString() const {
  std::string text;
  for (const LevelTile& t : levels) {
    text += t.level + ":" + Name(t.dataflow) + ":" + std::to_string(t.queries) + "x" + std::to_string(t.keys) + " ";
  }
  return text + (packing == Packing::kHead ? "pack:head" : "pack:block");
}

Result<Schedule> Schedule::Parse(std::string_view text) {
  Schedule s;
  bool packing_seen = false;
  while (true) {
    const size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(word.size());
    if (word == "pack:head" || word == "pack:block") {
      if (packing_seen) return Wrong(word, "packing is given twice");
      packing_seen = true;
      s.packing = word == "pack:head" ? Packing::kHead : Packing::kBlock;
      continue;
    }
    if (s.levels.size() == kMaxLevels) return Wrong(word, "more than 8 levels");
    LevelTile tile;
    const Status status = ParseTile(word, s.levels.size(), &tile);
    if (!status.ok()) return status;
    for (const LevelTile& t : s.levels) {
      if (t.level == tile.level) return Wrong(word, "this level is given twice");
    }
    s.levels.push_back(tile);
  }
  if (s.levels.empty()) {
    return Status::Error(Code::kInvalidArgument,
                         "schedule: no level, expected for example \"L2:query-resident:512x128\"");
  }
  return s;
}

}  // namespace attenio
