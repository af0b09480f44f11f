// The layer in a network of one's own: 3x3 convolutions with FRN and TLU instead of batch norm and ReLU, trained for a
// few steps on made-up images, two at a time. Needs frn::nn alone.
#include <torch/torch.h>

#include <iostream>

#include "frn/nn/norms.h"

struct NetworkImpl : torch::nn::Module {
  NetworkImpl() {
    using torch::nn::Conv2dOptions;
    conv1 = register_module("conv1", torch::nn::Conv2d(Conv2dOptions(3, 16, 3).padding(1).bias(false)));
    norm1 = register_module("norm1", frn::FRN(16));
    conv2 = register_module("conv2", torch::nn::Conv2d(Conv2dOptions(16, 32, 3).padding(1).stride(2).bias(false)));
    norm2 = register_module("norm2", frn::FRN(frn::FRNOptions(32).eps_form(frn::EpsForm::kLearned)));
    linear = register_module("linear", torch::nn::Linear(32, 3));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = norm1(conv1(x));
    x = norm2(conv2(x));
    return linear(x.mean({2, 3}));
  }

  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  frn::FRN norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear linear{nullptr};
};
TORCH_MODULE(Network);

int main() {
  torch::manual_seed(1);
  Network network;
  torch::optim::SGD sgd(network->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  // Class k is brighter in colour k.
  const auto labels = torch::arange(12) % 3;
  auto images = torch::randn({12, 3, 16, 16});
  for (int64_t i = 0; i < 12; ++i) images[i][i % 3] += 1;

  for (int step = 1; step <= 100; ++step) {
    const auto batch = torch::randperm(12).narrow(0, 0, 2);
    const auto logits = network(images.index_select(0, batch));
    const auto loss = torch::nn::functional::cross_entropy(logits, labels.index_select(0, batch));
    sgd.zero_grad();
    loss.backward();
    sgd.step();
    if (step % 20 == 0) std::cout << "step " << step << "  loss " << loss.item<float>() << "\n";
  }
}
