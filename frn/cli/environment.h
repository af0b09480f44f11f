// What must stand in the environment before the program's libraries are loaded.
#pragma once

namespace frn::cli {

// Bounds how long OpenMP's threads spin at the end of a parallel region, unless the user has said so: with GNU's
// default they burn their processor for milliseconds, and beside another busy process a network trains ten times
// slower. The library reads it when it is loaded, so the program starts itself again for the commands that compute.
// Call first thing in main.
void bound_spinning(char** argv);

}  // namespace frn::cli
