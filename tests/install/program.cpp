#include <frn/nn/norm_act.h>
#include <torch/torch.h>

#include <iostream>

int main() {
  auto layer = frn::NormActSpec::parse("frn+tlu").make(64);
  auto x = torch::randn({2, 64, 56, 56}, torch::requires_grad());
  auto z = layer->forward(x);
  z.square().sum().backward();
  std::cout << z.sizes() << ", gradient of tau " << layer->tau.grad().sizes() << "\n";
}
