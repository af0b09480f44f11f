// The tables and a spec as JSON, for other languages (python/frn reads them through the operators' library) and for
// `frn info norms --json`.
#pragma once

#include <string>

#include "frn/core/value.h"
#include "frn/spec/norm_act_spec.h"

namespace frn {

// {"norms": [{"name": "frn", ..., "options": [...]}, ...], "activations": [...]}, in the order of the tables.
Value norm_table_value();

// {"text": "frn(eps=0.5)+tlu", "norm": "frn", "activation": "tlu", "options": {"eps": 0.5}}: the options as written, in
// the table's order.
std::string spec_json(const NormActSpec& spec);

}  // namespace frn
