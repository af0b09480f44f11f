// By which of its addresses a machine reaches another, and is reached.
#pragma once

#include <string>

namespace frn::dist {

// This machine's address on the way to a host, as a number: a machine's name often resolves to an address that only the
// machine itself can reach. Nothing is sent. Throws frn::Error when the host is unknown or no way leads there.
std::string own_address_towards(const std::string& host);

}  // namespace frn::dist
