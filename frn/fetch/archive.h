// Unpacking of .tar.gz archives: plain files and folders only, none of them outside the folder asked for.
#pragma once

#include <cstdint>
#include <filesystem>

namespace frn::fetch {

// Unpacks into the folder, which must exist. A name that leads out of it, a link, a device, a damaged archive and one
// of more than `limit` bytes of files are refused: one frn::Error "[data] archive: ...". What was written until then
// stays, so the folder should be one that is thrown away on failure.
void unpack_tar_gz(const std::filesystem::path& archive, const std::filesystem::path& folder, uint64_t limit);

}  // namespace frn::fetch
