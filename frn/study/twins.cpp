#include "frn/study/twins.h"

#include <algorithm>

#include "frn/core/error.h"

namespace frn::study {

std::map<std::string, std::string> same_trainings(const Folder& folder, const std::vector<Cell>& cells,
                                                  const std::function<std::string(const Cell&)>& training_of) {
  std::map<std::string, std::vector<const Cell*>> together;
  for (const auto& cell : cells) {
    try {
      together[training_of(cell)].push_back(&cell);
    } catch (const Error&) {
      continue;  // its settings cannot be trained; planning it reports why
    }
  }
  const auto is_there = [&](const Cell* cell) { return folder.has_cell(cell->name); };
  std::map<std::string, std::string> out;
  for (const auto& [training, same] : together) {
    const auto begun = std::find_if(same.begin(), same.end(), is_there);
    const auto* const trained = begun == same.end() ? same.front() : *begun;
    for (const auto* cell : same) {
      if (cell != trained && !is_there(cell)) out[cell->name] = trained->name;
    }
  }
  return out;
}

}  // namespace frn::study
