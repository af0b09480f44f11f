// Marks what a shared library of the project offers to others; everything else stays inside it.
#pragma once

#define FRN_API __attribute__((visibility("default")))
