// cli/ is the program: it parses, prints and exits; the library never does. One source per subcommand.
#pragma once

#include <vector>

#include "frn/cli/command.h"

namespace frn::cli {

Command bench_command();
Command bench_coco_command();
Command bench_detector_command();
Command bench_loader_command();
Command bench_nms_command();
Command bench_train_command();
Command convert_command();
Command data_command();
Command eval_command();
Command export_command();
Command info_command();
std::vector<Command> info_model_commands();  // frn info models, frn info model
Command metrics_command();
Command predict_command();
Command report_command();
Command study_command();
Command train_command();

}  // namespace frn::cli
