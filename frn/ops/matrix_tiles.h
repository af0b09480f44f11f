// A fault of some virtual machines that ends programs which multiply in bfloat16.
#pragma once

namespace frn::ops {

// Some virtual machines show AMX but hide the pages of CPUID that describe its tiles. oneDNN then configures no tiles
// and the first bfloat16 product dies of an illegal instruction. Keeps oneDNN from AMX there, unless the user has set
// ONEDNN_MAX_CPU_ISA. oneDNN reads that variable once: call before the first product, and before other threads read the
// environment.
void avoid_undescribed_tiles() noexcept;

}  // namespace frn::ops
