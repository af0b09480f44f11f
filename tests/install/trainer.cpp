#include <frn/train/trainer.h>

#include <iostream>

int main(int, char** arguments) {
  frn::train::TrainConfig config;
  config.model = "resnetv2-8";
  config.image_size = 8;
  config.steps = 3;
  const frn::train::RunFolder folder{arguments[1]};
  folder.start(config);
  const std::atomic<bool> stop{false};
  const auto outcome = frn::train::train(folder, config, {}, stop);
  std::cout << status_name(outcome.status) << " after step " << outcome.step << "\n";
}
