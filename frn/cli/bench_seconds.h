// How long something takes.
#pragma once

#include <functional>
#include <vector>

namespace frn::cli {

double seconds_of(const std::function<void()>& body, int repeats = 1);  // of one of them
double median(std::vector<double> values);

}  // namespace frn::cli
