// What must stand in the environment before the program's libraries are loaded.
#pragma once

namespace frn::cli {

// Bounds how long OpenMP's threads spin at the end of a parallel region, unless the user has said so: with GNU's
// default they burn their processor for milliseconds, and beside another busy process a network trains ten times
// slower. The library reads it when it is loaded, so the program starts itself again for the commands that compute.
// Call first thing in main.
void bound_spinning(char** argv);

// Some virtual machines show AMX and die of an illegal instruction in a bfloat16 product. Tries one in a child process,
// and keeps oneDNN from AMX when the child dies. Call before the first product.
void avoid_broken_bfloat16();

}  // namespace frn::cli
