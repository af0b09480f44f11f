// cli/ is the program: it parses, prints and exits; the library never does. One source per subcommand.
#pragma once

#include <CLI/CLI.hpp>

namespace frn::cli {

// Each adds its subcommand to the program; the work is done in the subcommand's callback.
void add_bench(CLI::App& program);
void add_bench_loader(CLI::App& bench);
void add_bench_train(CLI::App& bench);
void add_convert(CLI::App& program);
void add_data(CLI::App& program);
void add_eval(CLI::App& program);
void add_info(CLI::App& program);
void add_info_models(CLI::App& info);  // its models and model
void add_report(CLI::App& program);
void add_predict(CLI::App& program);
void add_study(CLI::App& program);
void add_train(CLI::App& program);

}  // namespace frn::cli
