// What carries messages between ranks; one source per engine. Included by dist/ alone.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>

#include "frn/dist/group.h"

namespace frn::dist {

using StorePointer = c10::intrusive_ptr<c10d::Store>;
using BackendPointer = c10::intrusive_ptr<c10d::Backend>;

// For tensors in memory.
BackendPointer make_gloo(const StorePointer& store, const Place& place, std::chrono::milliseconds timeout);
// For tensors on CUDA devices. Throws frn::Error in a program that was built without CUDA.
BackendPointer make_nccl(const StorePointer& store, const Place& place, std::chrono::milliseconds timeout);

}  // namespace frn::dist
