// What carries messages between ranks; one source per engine. Included by dist/ alone.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>

#include "frn/dist/group.h"

// An engine's source includes them itself: they take seconds.
namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace frn::dist {

using StorePointer = c10::intrusive_ptr<c10d::Store>;
using BackendPointer = c10::intrusive_ptr<c10d::Backend>;

// For tensors in memory.
BackendPointer make_gloo(const StorePointer& store, const Place& place, std::chrono::milliseconds timeout);
// For tensors on CUDA devices. Throws frn::Error in a program that was built without CUDA.
BackendPointer make_nccl(const StorePointer& store, const Place& place, std::chrono::milliseconds timeout);

}  // namespace frn::dist
